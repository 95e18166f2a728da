#include "export/stacks.h"

#include <absl/strings/str_format.h>

#include "perfdata/format.h"
#include "report/disasm.h"

namespace brink::exporter {
namespace {

constexpr uint64_t kOutside = 1;       // llvm-profgen's address of everything that is not in the binary
constexpr uint64_t kNearLeaf = 0x100;  // farther from the newest target it calls the sample bogus

}  // namespace

std::vector<uint64_t> FramesOf(std::span<const uint64_t> chain, bool kernel) {
  std::vector<uint64_t> frames;
  for (uint64_t address : chain) {
    if (address >= perfdata::kContextMax) continue;
    if (symbol::AddressSpaces::IsKernel(address) == kernel) frames.push_back(address);
  }
  return frames;
}

uint32_t StackCollector::BranchId(int32_t pid, const BranchEntry& entry) {
  Branch branch{program_.spaces.Normalise(pid, entry.from), program_.spaces.Normalise(pid, entry.to)};
  auto [it, fresh] = branch_index_.try_emplace(branch, static_cast<uint32_t>(branches_.size()));
  if (fresh) branches_.push_back(branch);
  return it->second;
}

uint32_t StackCollector::PlaceId(int32_t pid, uint64_t address) {
  Location location = program_.spaces.Normalise(pid, address);
  auto [it, fresh] = place_index_.try_emplace(location, static_cast<uint32_t>(places_.size()));
  if (fresh) places_.push_back(location);
  return it->second;
}

void StackCollector::OnSample(const report::SampleView& sample) {
  if (chains_ && sample.chain.empty()) ++counts_.no_chain;
}

// Address behind a call instruction, 0 when its code is not at hand.
uint64_t StackCollector::Behind(int32_t pid, uint64_t call) {
  const Location location = program_.spaces.Normalise(pid, call);
  auto [it, fresh] = lengths_.try_emplace(location, 0);
  if (fresh) {
    auto code = program_.symbolizer->CodeAt(location, report::kMaxInstruction);
    auto instruction = code.ok() ? report::DecodeOne(*code, call, program_.symbolizer->MachineOf(location.object)) : std::nullopt;
    it->second = instruction ? instruction->length : 0;
  }
  return it->second ? call + it->second : 0;
}

std::vector<uint64_t> StackCollector::ChainOf(const report::SampleView& sample, const report::CleanStack& stack) {
  std::vector<uint64_t> frames = FramesOf(sample.chain, symbol::AddressSpaces::IsKernel(stack.entries[0].to));
  if (frames.empty() || sample.direction == BRINK_DIR_PAST) return frames;
  // From the sample on: a call adds a frame, a return takes one away and must lead back to where its call was made.
  std::vector<uint64_t> callers(frames.rbegin(), frames.rend() - 1);
  for (size_t i = stack.entries.size(); i-- > 0;) {
    const BranchEntry& entry = stack.entries[i];
    const Kind kind = entry.kind();
    if (kind == Kind::kCall || kind == Kind::kIndCall) {
      const uint64_t back = Behind(sample.pid, entry.from);
      if (back == 0) return {};
      callers.push_back(back);
    } else if (kind == Kind::kRet) {
      if (callers.empty() || callers.back() != entry.to) return {};
      callers.pop_back();
    }
  }
  std::vector<uint64_t> chain = {sample.end_ip ? sample.end_ip : stack.entries[0].to};
  chain.insert(chain.end(), callers.rbegin(), callers.rend());
  return chain;
}

void StackCollector::Count(std::vector<uint32_t>& words, size_t branches) {
  std::u32string key(1, static_cast<char32_t>(branches));
  key.append(words.begin(), words.end());
  ++stacks_[std::move(key)];
  words.clear();
}

void StackCollector::OnStack(const report::SampleView& sample, const report::CleanStack& stack) {
  std::vector<uint32_t> words;
  if (chains_) {
    if (sample.chain.empty() || stack.entries.empty()) return;
    std::vector<uint64_t> chain = ChainOf(sample, stack);
    if (chain.empty()) {
      ++counts_.broken;
      return;
    }
    size_t branches = 1;
    while (branches < stack.entries.size() && stack.straight[branches - 1]) ++branches;
    for (size_t i = 0; i < branches; ++i) words.push_back(BranchId(sample.pid, stack.entries[i]));
    for (uint64_t address : chain) words.push_back(PlaceId(sample.pid, address));
    Count(words, branches);
    return;
  }
  for (size_t i = 0; i < stack.entries.size(); ++i) {
    words.push_back(BranchId(sample.pid, stack.entries[i]));
    if (i + 1 == stack.entries.size() || !stack.straight[i]) Count(words, words.size());
  }
}

OptimiserText StackCollector::Perfscript(const Binary& binary, bool single) const {
  // Several stacks become one once what lies outside is no longer told apart.
  std::map<std::string, uint64_t> lines;
  OptimiserText out;
  for (const auto& [key, count] : stacks_) {
    std::string line;
    auto flush = [&, count = count] {
      if (!line.empty()) lines[line] += count;
      line.clear();
    };
    for (size_t i = 1; i < key.size(); ++i) {
      const Branch& branch = branches_[key[i]];
      auto from = binary.Vaddr(branch.first), to = binary.Vaddr(branch.second);
      if (!from && !to) {
        out.written.elsewhere += count;
        continue;
      }
      out.written.branches += count;
      if (line.empty()) absl::StrAppendFormat(&line, " %x ", to.value_or(kOutside));
      absl::StrAppendFormat(&line, " 0x%x/0x%x/-/-/-/0", from.value_or(kOutside), to.value_or(kOutside));
      if (single) flush();
    }
    flush();
  }
  for (const auto& [line, count] : lines) absl::StrAppendFormat(&out.text, "%d\n%s\n", count, line);
  out.written.rows = lines.size();
  return out;
}

OptimiserText StackCollector::PerfscriptWithChains(const Binary& binary, ChainCounts* counts) const {
  std::map<std::string, uint64_t> lines;
  OptimiserText out;
  *counts = counts_;
  for (const auto& [key, count] : stacks_) {
    const size_t branches = key[0];
    const auto leaf = binary.Vaddr(places_[key[1 + branches]]);
    const auto target = binary.Vaddr(branches_[key[1]].second);
    if (!leaf || !target) {
      counts->outside_leaf += count;
      continue;
    }
    if (*leaf < *target || *leaf - *target >= kNearLeaf) {
      counts->far_leaf += count;
      continue;
    }
    std::string line;
    // Behind the first frame that lies elsewhere nothing can be told.
    for (size_t i = 1 + branches; i < key.size(); ++i) {
      auto frame = binary.Vaddr(places_[key[i]]);
      if (!frame) break;
      absl::StrAppendFormat(&line, "\t%16x\n", *frame);
    }
    for (size_t i = 1; i <= branches; ++i) {
      const Branch& branch = branches_[key[i]];
      auto from = binary.Vaddr(branch.first), to = binary.Vaddr(branch.second);
      if (!from && !to) continue;
      absl::StrAppendFormat(&line, " 0x%x/0x%x/-/-/-/0", from.value_or(kOutside), to.value_or(kOutside));
      out.written.branches += count;
    }
    lines[line + "\n"] += count;
  }
  for (const auto& [line, count] : lines) absl::StrAppendFormat(&out.text, "%d\n%s\n", count, line);
  out.written.rows = lines.size();
  return out;
}

}  // namespace brink::exporter
