#include "symbol/jit_source.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/strings.h"

namespace brink::symbol {
namespace {

// Whether who made a file is root, ourselves, or the process of this /proc/PID/status ("": it is gone, and nobody knows).
bool BelongsTo(uid_t user, std::string_view status) {
  const size_t at = status.find("\nUid:");
  if (user == 0 || user == geteuid() || at == std::string_view::npos) return true;
  std::string_view line = status.substr(at + 5);
  for (std::string_view word : Split(line.substr(0, line.find('\n')), '\t')) {
    if (word == std::to_string(user)) return true;
  }
  return false;
}

// Regular files only, and not through a FIFO that would hang: these paths are writable by anyone. Of a longer file the front
// or the end is read.
StatusOr<std::string> ReadPart(const std::string& path, std::string_view status, size_t most, bool end) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path, O_NOFOLLOW));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoError(errno, path);
  if (!BelongsTo(info.st_uid, status)) return PermissionDenied(path + ": of another user than the process");
  const uint64_t size = static_cast<uint64_t>(info.st_size), from = end && size > most ? size - most : 0;
  ASSIGN_OR_RETURN(std::string text, ReadFrom(fd.get(), from, most, path));
  if (from > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

std::vector<std::string> Roots(const JitQuery& query) {
  std::vector<std::string> roots;
  if (!query.proc.empty() && query.pid > 0) roots.push_back(query.proc + "/" + std::to_string(query.pid) + "/root");
  roots.push_back("");
  return roots;
}

}  // namespace

int32_t InnermostPid(const std::string& proc, int32_t pid) {
  auto status = ReadFile(proc + "/" + std::to_string(pid) + "/status", 1u << 20);
  if (!status.ok()) return pid;
  for (std::string_view line : Split(*status, '\n')) {
    if (!line.starts_with("NSpid:")) continue;
    line = Trim(line);
    std::string_view last = line.substr(line.find_last_of(" \t") + 1);
    int32_t inner = pid;
    std::from_chars(last.data(), last.data() + last.size(), inner);
    return inner;
  }
  return pid;
}

JitCodes ReadJitCodes(const JitQuery& query) {
  JitCodes codes;
  const std::string status = query.proc.empty() ? "" : ReadFile(query.proc + "/" + std::to_string(query.pid) + "/status", 1u << 20).value_or("");
  int32_t inner = query.proc.empty() ? query.pid : InnermostPid(query.proc, query.pid);
  std::vector<JitSymbol> symbols;
  for (const std::string& root : Roots(query)) {
    for (int32_t pid : {inner, query.pid}) {
      auto text = ReadPart(root + query.map_dir + "/perf-" + std::to_string(pid) + ".map", status, query.most_bytes / 4, true);
      if (!text.ok()) continue;
      symbols = ParsePerfMap(*text).symbols;
      break;
    }
    if (!symbols.empty()) break;
  }
  if (!query.jitdump.empty()) {
    for (const std::string& root : Roots(query)) {
      auto bytes = ReadPart(root + query.jitdump, status, query.most_bytes, false);
      auto dump = bytes.ok() ? ParseJitDump(*bytes) : StatusOr<JitDump>(bytes.status());
      if (!dump.ok()) continue;
      codes.dump = *std::move(dump);
      // Only as far as there is code: the rest may be a hole as large as anyone likes.
      uint64_t end = 0;
      for (const JitCode& code : codes.dump.codes) {
        if (code.code_offset) end = std::max(end, code.code_offset + code.size);
      }
      codes.dump_bytes = *std::move(bytes);
      if (end < codes.dump_bytes.size() / 2) {
        codes.dump_bytes.resize(end);
        codes.dump_bytes.shrink_to_fit();
      }
      codes.machine = static_cast<uint16_t>(codes.dump.machine);
      break;
    }
  }
  codes.Place(std::move(symbols));
  return codes;
}

// The dump's entries come last: they win over the map's.
void JitCodes::Place(std::vector<JitSymbol> map) {
  uint32_t index = 0;
  for (JitCode& code : dump.codes) map.push_back({code.address, code.size, std::move(code.name), ++index});
  symbols = LatestWins(std::move(map));
}

const JitCode* JitCodes::CodeOf(uint64_t address) const {
  auto next = std::upper_bound(symbols.begin(), symbols.end(), address, [](uint64_t at, const JitSymbol& symbol) { return at < symbol.start; });
  if (next == symbols.begin()) return nullptr;
  const JitSymbol& symbol = *std::prev(next);
  return address - symbol.start < symbol.size && symbol.code ? &dump.codes[symbol.code - 1] : nullptr;
}

std::optional<JitLinePlace> JitCodes::LineAt(uint64_t address) const {
  const JitCode* code = CodeOf(address);
  if (!code) return std::nullopt;
  const JitLine* best = nullptr;
  for (const JitLine& line : code->lines) {
    if (line.address <= address && (!best || line.address >= best->address)) best = &line;
  }
  if (!best || best->file >= dump.files.size()) return std::nullopt;
  return JitLinePlace{dump.files[best->file], best->line};
}

StatusOr<std::string> JitCodes::CodeAt(uint64_t address, uint64_t size) const {
  const JitCode* code = CodeOf(address);
  const uint64_t inside = code ? address - code->address : 0;
  if (!code || code->code_offset == 0 || code->code_offset > dump_bytes.size() || inside >= dump_bytes.size() - code->code_offset) return NotFound("the code is in no jitdump");
  return dump_bytes.substr(code->code_offset + inside, std::min(size, code->size - inside));
}

}  // namespace brink::symbol
