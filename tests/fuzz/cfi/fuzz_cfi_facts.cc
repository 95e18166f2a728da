// Any bytes as a program file, and windows that wander through it: facts within their bounds, answers to every question,
// counts that add up.
#include <cstdlib>
#include <string>

#include "cfi/policies.h"

using namespace brink;
using namespace brink::cfi;

namespace {

class Map : public CodeMap {
 public:
  explicit Map(Facts* facts) : facts_(facts) {}
  Place At(uint64_t address) override {
    if (!facts_->InText(address)) return {.memory = address % 3 ? MemoryKind::kNotCode : MemoryKind::kUnknown};
    return {.memory = MemoryKind::kFile, .facts = facts_, .address = address, .module = 1};
  }

 private:
  Facts* facts_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = elf::File::FromBytes(std::string(reinterpret_cast<const char*>(data), size));
  if (!file.ok()) return 0;
  auto facts = Facts::Load(*file, {.max_text_bytes = 1u << 20, .max_functions = 500, .max_function_bytes = 1u << 16, .max_kept_boundaries = 10'000});
  if (!facts.ok()) return 0;
  if (facts->functions().size() > 500) std::abort();
  uint64_t seed = size;
  auto random = [&] { return (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33; };
  auto address = [&]() -> uint64_t {
    if (facts->functions().empty() || random() % 8 == 0) return random();
    return facts->functions()[random() % facts->functions().size()].start + random() % 64;
  };
  std::vector<BranchEntry> records(64);
  for (BranchEntry& entry : records) entry = {address(), address(), MakeInfo(static_cast<Kind>(random() % 12))};
  Map map(&*facts);
  Result result;
  for (bool contiguous : {true, false}) Check({.records = records, .contiguous = contiguous, .calls_and_returns = contiguous}, map, &result);
  if (result.checked > result.edges || result.edges > 2 * records.size()) std::abort();
  for (const Violation& violation : result.violations) {
    if (violation.index >= records.size() || violation.severity > result.severity) std::abort();
  }
  for (const Function& function : facts->functions()) {
    if (facts->IsEntry(function.start) != Known::kYes || !facts->Find(function.start)) std::abort();
  }
  return 0;
}
