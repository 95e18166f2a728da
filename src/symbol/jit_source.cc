#include "symbol/jit_source.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>

#include "base/regular_file.h"
#include "base/strings.h"

namespace brink::symbol {
namespace {

constexpr size_t kMaxMap = 256u << 20;

// Regular files only, and not through a FIFO that would hang: these paths are writable by anyone.
StatusOr<std::string> ReadRegular(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path, O_NOFOLLOW));
  return ReadFile("/proc/self/fd/" + std::to_string(fd.get()), kMaxMap);
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
  int32_t inner = query.proc.empty() ? query.pid : InnermostPid(query.proc, query.pid);
  std::vector<JitSymbol> symbols;
  for (const std::string& root : Roots(query)) {
    for (int32_t pid : {inner, query.pid}) {
      auto text = ReadRegular(root + query.map_dir + "/perf-" + std::to_string(pid) + ".map");
      if (!text.ok()) continue;
      symbols = ParsePerfMap(*text).symbols;
      break;
    }
    if (!symbols.empty()) break;
  }
  if (!query.jitdump.empty()) {
    for (const std::string& root : Roots(query)) {
      auto bytes = ReadRegular(root + query.jitdump);
      auto dump = bytes.ok() ? ParseJitDump(*bytes) : StatusOr<JitDump>(bytes.status());
      if (!dump.ok()) continue;
      codes.dump = *std::move(dump);
      codes.dump_bytes = *std::move(bytes);
      codes.machine = static_cast<uint16_t>(codes.dump.machine);
      break;
    }
  }
  // The dump's entries come last: they win over the map's.
  for (const JitCode& code : codes.dump.codes) symbols.push_back({code.address, code.size, code.name});
  codes.symbols = LatestWins(std::move(symbols));
  return codes;
}

std::optional<JitLinePlace> JitCodes::LineAt(uint64_t address) const {
  for (auto code = dump.codes.rbegin(); code != dump.codes.rend(); ++code) {
    if (address < code->address || address - code->address >= code->size) continue;
    const JitLine* best = nullptr;
    for (const JitLine& line : code->lines) {
      if (line.address <= address && (!best || line.address >= best->address)) best = &line;
    }
    if (!best || best->file >= dump.files.size()) return std::nullopt;
    return JitLinePlace{dump.files[best->file], best->line};
  }
  return std::nullopt;
}

StatusOr<std::string> JitCodes::CodeAt(uint64_t address, uint64_t size) const {
  for (auto code = dump.codes.rbegin(); code != dump.codes.rend(); ++code) {
    if (address < code->address || address - code->address >= code->size || code->code_offset == 0) continue;
    uint64_t inside = address - code->address;
    if (code->code_offset > dump_bytes.size() || inside >= dump_bytes.size() - code->code_offset) break;
    return dump_bytes.substr(code->code_offset + inside, std::min(size, code->size - inside));
  }
  return NotFound("the code is in no jitdump");
}

}  // namespace brink::symbol
