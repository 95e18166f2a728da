#include "ptrace/exclusive.h"

#include <algorithm>

#include "ptrace/tracee.h"

namespace brink::ptrace {
namespace {

using decode::Flow;

// The architecture promises progress for sequences of at most 128 bytes.
constexpr uint64_t kMostBytes = 128;

bool AddExit(uint64_t from, uint64_t to, Exclusive* out) {
  for (const Exclusive::Exit& exit : out->exits) {
    if (exit.to == to) return false;
  }
  out->exits.push_back({from, to});
  return out->exits.size() < kMostBreakpoints;
}

}  // namespace

std::vector<uint64_t> Exclusive::Ends() const {
  std::vector<uint64_t> out = {end};
  for (const Exit& exit : exits) out.push_back(exit.to);
  return out;
}

std::optional<Exclusive> ScanExclusive(uint64_t ip, decode::Memory& code, decode::Machine machine) {
  uint8_t bytes[kMostBytes];
  const size_t size = code.Read(ip, bytes, sizeof bytes);
  Exclusive out;
  for (size_t at = 0; at < size;) {
    auto insn = decode::Decode(machine, {bytes + at, size - at}, ip + at);
    if (!insn || (insn->flow != Flow::kNext && insn->flow != Flow::kCond)) return std::nullopt;
    if (insn->flow == Flow::kCond && !AddExit(ip + at, insn->target, &out)) return std::nullopt;
    if (insn->exclusive && !insn->stores && at > 0) return std::nullopt;
    at += insn->length;
    if (!insn->exclusive || !insn->stores) continue;
    out.end = ip + at;
    const bool inside = std::ranges::any_of(out.exits, [&](const Exclusive::Exit& exit) { return exit.to >= ip && exit.to <= out.end; });
    return inside ? std::nullopt : std::optional(out);
  }
  return std::nullopt;
}

}  // namespace brink::ptrace
