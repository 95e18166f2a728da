// Lines of source files named by debug information.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

namespace brink::report {

// Reads each file once; files above kMaxSource, and what is no regular file, count as absent. `prefix` (--symfs) is put
// before absolute paths first.
class SourceFiles {
 public:
  static constexpr size_t kMaxSource = 8u << 20;
  explicit SourceFiles(std::string prefix = "") : prefix_(std::move(prefix)) {}
  // Line `number` (from 1) without its end, cut at 400 bytes; nothing where the file or line is not there.
  std::optional<std::string_view> Line(const std::string& path, uint32_t number);

 private:
  struct File {
    std::string text;
    std::vector<std::string_view> lines;
  };
  std::string prefix_;
  absl::flat_hash_map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace brink::report
