#include "snapshot/kernel_code.h"

#include <algorithm>
#include <cerrno>

#include <bpf/bpf.h>

#include "base/fd.h"
#include "symbol/kallsyms.h"

namespace brink {
namespace {

// What follows the last symbol of a stretch is not its own for ever.
constexpr uint64_t kLongestFunction = 1 << 20;

}  // namespace

StatusOr<KernelCode> KernelCode::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(symbol::Kallsyms kallsyms, symbol::ParseKallsyms(text));
  KernelCode code;
  for (const symbol::KernelSymbol& symbol : kallsyms.symbols) {
    if (!code.ranges_.empty()) {
      CodeRange& last = code.ranges_.back();
      if (symbol.address == last.start) {
        code.aliases_.emplace_back(symbol.name, code.ranges_.size() - 1);
        continue;
      }
      last.end = std::min(symbol.address, last.start + kLongestFunction);
    }
    code.ranges_.push_back({symbol.address, symbol.address + 4096, symbol.name});
  }
  return code;
}

StatusOr<KernelCode> KernelCode::Read() {
  ASSIGN_OR_RETURN(std::string text, ReadFile("/proc/kallsyms", 256u << 20));
  return Parse(text);
}

std::optional<CodeRange> KernelCode::Find(uint64_t address) const {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), address, [](uint64_t a, const CodeRange& range) { return a < range.start; });
  if (it == ranges_.begin() || !std::prev(it)->Contains(address)) return std::nullopt;
  return *std::prev(it);
}

std::optional<CodeRange> KernelCode::FindFunction(std::string_view name) const {
  for (const CodeRange& range : ranges_) {
    if (range.name == name) return range;
  }
  for (const auto& [alias, index] : aliases_) {
    if (alias == name) return ranges_[index];
  }
  return std::nullopt;
}

CodeLookup KernelCode::Lookup() const {
  return [this](uint64_t address) { return Find(address); };
}

StatusOr<std::vector<CodeRange>> ProgramRanges(int program_fd) {
  constexpr uint32_t kMostFunctions = 256;
  std::vector<uint64_t> starts(kMostFunctions);
  std::vector<uint32_t> lengths(kMostFunctions);
  bpf_prog_info info = {};
  info.nr_jited_ksyms = info.nr_jited_func_lens = kMostFunctions;
  info.jited_ksyms = reinterpret_cast<uint64_t>(starts.data());
  info.jited_func_lens = reinterpret_cast<uint64_t>(lengths.data());
  uint32_t size = sizeof info;
  if (int error = bpf_obj_get_info_by_fd(program_fd, &info, &size); error != 0) return ErrnoError(-error, "ask for a program's place");
  std::vector<CodeRange> ranges;
  for (uint32_t i = 0; i < std::min({info.nr_jited_ksyms, info.nr_jited_func_lens, kMostFunctions}); ++i) {
    if (starts[i]) ranges.push_back({starts[i], starts[i] + lengths[i], info.name});
  }
  if (ranges.empty()) return PermissionDenied("the kernel hides where programs lie; CAP_SYSLOG shows it");
  return ranges;
}

}  // namespace brink
