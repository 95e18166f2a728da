#include "pipeline/item.h"

#include <array>

namespace brink {

const char* LossCauseName(LossCause cause) {
  static constexpr std::array<const char*, static_cast<size_t>(LossCause::kCount)> kNames = {
      "ring full", "ring contended", "no buffer",           "writer",   "throttled",
      "skipped",   "late",           "side-band",           "side-band no buffer", "malformed"};
  return kNames[static_cast<size_t>(cause)];
}

std::optional<SampleView> ViewSample(std::span<const std::byte> record) {
  if (record.size() < sizeof(brink_sample)) return std::nullopt;
  SampleView view;
  view.head = reinterpret_cast<const brink_sample*>(record.data());
  size_t branches = size_t{view.head->nr} * sizeof(brink_branch);
  size_t chain = size_t{view.head->chain_nr} * sizeof(uint64_t);
  if (sizeof(brink_sample) + branches + chain > record.size()) return std::nullopt;
  const std::byte* at = record.data() + sizeof(brink_sample);
  view.branches = {reinterpret_cast<const BranchEntry*>(at), view.head->nr};
  view.chain = {reinterpret_cast<const uint64_t*>(at + branches), view.head->chain_nr};
  return view;
}

std::optional<PerfRecordView> ViewPerfRecord(std::span<const std::byte> item) {
  constexpr size_t kPerfHeader = 8;
  if (item.size() < sizeof(brink_rec_header) + kPerfHeader + sizeof(SideBandId)) return std::nullopt;
  PerfRecordView view;
  std::span<const std::byte> record = item.subspan(sizeof(brink_rec_header));
  std::memcpy(&view.id, record.data() + record.size() - sizeof(SideBandId), sizeof(SideBandId));
  view.record = record.first(record.size() - sizeof(SideBandId));
  return view;
}

}  // namespace brink
