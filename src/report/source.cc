#include "report/source.h"

#include "base/regular_file.h"
#include "base/strings.h"

namespace brink::report {
namespace {

std::string ReadSource(const std::string& path) {
  auto fd = OpenRegular(path);
  std::string text = fd.ok() ? ReadFrom(fd->get(), 0, SourceFiles::kMaxSource + 1, path).value_or("") : "";
  return text.size() <= SourceFiles::kMaxSource ? text : "";
}

}  // namespace

std::optional<std::string_view> SourceFiles::Line(const std::string& path, uint32_t number) {
  std::unique_ptr<File>& file = files_[path];
  if (!file) {
    file = std::make_unique<File>();
    if (!prefix_.empty()) file->text = ReadSource(prefix_ + path);
    if (file->text.empty()) file->text = ReadSource(path);
    if (!file->text.empty()) file->lines = Split(file->text, '\n');
  }
  if (number == 0 || number > file->lines.size()) return std::nullopt;
  std::string_view line = file->lines[number - 1].substr(0, 400);
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace brink::report
