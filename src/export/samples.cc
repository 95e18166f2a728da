#include "export/samples.h"

#include <algorithm>

#include "perfdata/format.h"

namespace brink::exporter {
namespace {

bool IsCall(Kind kind) { return kind == Kind::kCall || kind == Kind::kIndCall; }

// Callers of a stack that led to its sample: the calls that had not returned, innermost first.
void CallersBefore(const report::CleanStack& stack, std::vector<uint64_t>* frames) {
  size_t returned = 0;
  for (size_t i = 0; i < stack.entries.size(); ++i) {
    const BranchEntry& entry = stack.entries[i];
    if (entry.kind() == Kind::kRet) ++returned;
    if (IsCall(entry.kind())) {
      if (returned > 0) --returned;
      else frames->push_back(entry.from + 1);  // as a return address: behind the call's first byte
    }
    if (i + 1 < stack.entries.size() && !stack.straight[i]) return;
  }
}

// Callers of a stack that follows its sample: where returns without their call lead to.
void CallersAfter(const report::CleanStack& stack, std::vector<uint64_t>* frames) {
  size_t called = 0;
  for (size_t i = stack.entries.size(); i-- > 0;) {
    const BranchEntry& entry = stack.entries[i];
    if (IsCall(entry.kind())) ++called;
    if (entry.kind() == Kind::kRet) {
      if (called > 0) --called;
      else frames->push_back(entry.to);
    }
    if (i > 0 && !stack.straight[i - 1]) return;
  }
}

}  // namespace

void SampleCollector::Add(const report::SampleView& sample, std::vector<uint64_t>& frames) {
  uint32_t node = 0;
  for (size_t i = frames.size(); i-- > 0;) {
    // A return address may already be the next line, or even the next function.
    const uint64_t address = i == 0 ? frames[i] : frames[i] - 1;
    const Location place = program_.spaces.Normalise(sample.pid, address);
    auto [it, fresh] = children_.try_emplace({node, place}, static_cast<uint32_t>(nodes_.size()));
    if (fresh) nodes_.push_back({.parent = node, .place = place});
    node = it->second;
  }
  samples_.push_back({.time = sample.time, .period = sample.period, .pid = sample.pid, .tid = sample.tid, .node = node});
  std::string_view name = program_.spaces.CommOf(sample.pid, sample.tid);
  if (!name.empty()) names_[sample.tid] = std::string(name);
}

void SampleCollector::OnSample(const report::SampleView& sample) {
  frames_.clear();
  for (uint64_t address : sample.chain) {
    if (address < perfdata::kContextMax) frames_.push_back(address);
  }
  if (frames_.empty()) {
    if (!sample.branches.empty()) return;  // OnStack follows
    frames_.push_back(sample.ip);
  }
  Add(sample, frames_);
}

void SampleCollector::OnStack(const report::SampleView& sample, const report::CleanStack& stack) {
  for (uint64_t address : sample.chain) {
    if (address < perfdata::kContextMax) return;  // OnSample had it
  }
  frames_.assign(1, sample.ip);
  if (sample.meta.contiguous && !sample.meta.call_stack) {
    sample.direction == BRINK_DIR_FUTURE ? CallersAfter(stack, &frames_) : CallersBefore(stack, &frames_);
  }
  ++derived_;
  Add(sample, frames_);
}

void SampleCollector::AddAddresses(const report::Aggregate& aggregate) {
  for (const auto& [place, count] : aggregate.ips) {
    const auto node = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({.parent = 0, .place = place});
    samples_.push_back({.period = count, .node = node});
  }
}

std::string SampleCollector::NameOf(int32_t tid) const {
  auto name = names_.find(tid);
  return name == names_.end() ? "" : name->second;
}

std::vector<symbol::FunctionId> FunctionsOf(const std::vector<StackNode>& nodes, uint32_t leaf, report::Program& program) {
  std::vector<symbol::FunctionId> functions;
  for (uint32_t node = leaf; node != 0; node = nodes[node].parent) functions.push_back(program.FunctionAt(nodes[node].place));
  std::reverse(functions.begin(), functions.end());
  return functions;
}

}  // namespace brink::exporter
