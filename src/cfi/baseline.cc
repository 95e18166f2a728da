#include "cfi/baseline.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "base/units.h"

namespace brink::cfi {
namespace {

constexpr std::string_view kHead = "brink-baseline 1";
constexpr size_t kReturns = 3;

// FNV-1a, stable over time and machines.
uint64_t Mix(uint64_t hash, std::string_view bytes) {
  for (char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}
uint64_t Mix(uint64_t hash, uint64_t value) {
  for (int i = 0; i < 8; ++i) hash = (hash ^ (value >> 8 * i & 0xff)) * 0x100000001b3;
  return hash;
}
constexpr uint64_t kSeed = 0xcbf29ce484222325;

bool ParseHex(std::string_view text, uint64_t* value) {
  *value = 0;
  if (text.empty() || text.size() > 16) return false;
  for (char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    *value = *value << 4 | static_cast<uint64_t>(digit);
  }
  return true;
}

std::string Hex(uint64_t value) {
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[value >> shift & 15];
  return out;
}

}  // namespace

uint64_t Baseline::Edge(std::string_view from_id, uint64_t from, std::string_view to_id, uint64_t to) { return Mix(Mix(Mix(Mix(kSeed, from_id), from), to_id), to); }
uint64_t Baseline::Path(uint32_t call, uint64_t name) { return Mix(Mix(kSeed, uint64_t{call}), name); }

void Baseline::Learn(const Window& window, CodeMap& map) {
  for (const BranchEntry& entry : window.records) {
    const Kind kind = entry.kind();
    if ((kind != Kind::kRet && kind != Kind::kIndCall && kind != Kind::kIndJump) || full()) continue;
    const Place from = map.At(entry.from), to = map.At(entry.to);
    if (!from.facts || !to.facts || from.facts->build_id().empty()) continue;
    files_.insert(from.facts->build_id());
    edges_.insert(Edge(from.facts->build_id(), from.address, to.facts->build_id(), to.address));
  }
  if (!window.point || !window.point->sensitive || full()) return;
  if (auto name = PathOf(window, map)) paths_.insert(Path(window.point->call, *name));
}

std::optional<uint64_t> PathOf(const Window& window, CodeMap& map) {
  uint64_t name = kSeed;
  size_t found = 0, open = 0;
  for (size_t i = window.records.size(); i-- > 0 && found < kReturns;) {
    const BranchEntry& entry = window.records[i];
    const Kind kind = entry.kind();
    if (kind == Kind::kCall || kind == Kind::kIndCall) ++open;
    if (kind != Kind::kRet) continue;
    if (open > 0) {
      --open;
      continue;
    }
    const Place to = map.At(entry.to);
    if (!to.facts) return std::nullopt;
    name = Mix(Mix(name, to.facts->build_id()), to.address);
    ++found;
  }
  return found ? std::optional(name) : std::nullopt;
}

std::string Baseline::Text() const {
  std::vector<std::string> lines;
  for (const std::string& id : files_) lines.push_back("file " + HexEncode(id));
  for (uint64_t edge : edges_) lines.push_back("edge " + Hex(edge));
  for (uint64_t path : paths_) lines.push_back("path " + Hex(path));
  std::sort(lines.begin(), lines.end());
  std::string out = std::string(kHead) + "\n";
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

StatusOr<Baseline> Baseline::Parse(std::string_view text) {
  Baseline baseline;
  size_t number = 0;
  for (std::string_view line : Split(text, '\n')) {
    line = Trim(line);
    if (++number == 1 && line != kHead) return InvalidArgument("not a baseline: the first line must be '" + std::string(kHead) + "'");
    if (line.empty() || line == kHead) continue;
    const std::string_view word = line.substr(0, line.find(' ')), rest = line.size() > 5 ? line.substr(5) : "";
    uint64_t value = 0;
    if (baseline.full()) return ResourceExhausted("baseline: more than " + std::to_string(kMostEntries) + " entries");
    if (word == "file" && rest.size() % 2 == 0 && rest.size() <= 128) {
      std::string id;
      bool good = !rest.empty();
      for (size_t i = 0; i + 2 <= rest.size(); i += 2) {
        good &= ParseHex(rest.substr(i, 2), &value);
        id += static_cast<char>(value);
      }
      if (good) {
        baseline.files_.insert(id);
        continue;
      }
    } else if (word == "edge" && ParseHex(rest, &value)) {
      baseline.edges_.insert(value);
      continue;
    } else if (word == "path" && ParseHex(rest, &value)) {
      baseline.paths_.insert(value);
      continue;
    }
    return InvalidArgument("baseline, line " + std::to_string(number) + ": '" + EscapeForTerminal(line.substr(0, 60)) + "'");
  }
  return baseline;
}

}  // namespace brink::cfi
