#include "monitor/book.h"

#include <absl/strings/str_format.h>

namespace brink::cfi {
namespace {

std::string SideKey(const EventSide& side) {
  const std::string& file = side.build_id.empty() ? side.module : side.build_id;
  // Outside of files an address tells nothing across processes: one heap is as good as another.
  return file + (side.offset ? absl::StrFormat("+%x", side.offset) : file.empty() ? "?" : absl::StrFormat("@%x", side.address));
}

}  // namespace

std::string AlarmKey(const Alarm& alarm) {
  std::string key;
  for (const Violation& v : alarm.violations) key += std::string(PolicyName(v.policy)) + " ";
  return key + SideKey(alarm.from) + " " + SideKey(alarm.to);
}

bool AlarmBook::Spend(Budget* budget, uint64_t minute, uint64_t most) {
  if (budget->minute != minute) *budget = {.minute = minute, .used = 0};
  return budget->used++ < most;
}

bool AlarmBook::Take(Alarm* alarm, uint64_t budget) {
  if (known_.size() >= kMostKept) known_.clear();
  if (budgets_.size() >= kMostKept) budgets_.clear();
  Known& known = known_[AlarmKey(*alarm)];
  const bool acted = alarm->context.action != 0 || !alarm->action.empty();
  const bool fresh = known.told_ns == 0 || alarm->time_ns >= known.told_ns + kQuietNs || alarm->severity > known.severity;
  if (!fresh && !acted) {
    ++known.since;
    ++repeated_;
    return false;
  }
  const std::string whose = !alarm->container.pod_uid.empty() ? alarm->container.pod_uid : !alarm->container.id.empty() ? alarm->container.id : alarm->process.exec_id;
  const uint64_t minute = alarm->time_ns / 60'000'000'000;
  if (!acted && (!Spend(&budgets_[whose], minute, budget) || !Spend(&all_, minute, most_per_minute_))) {
    ++known.since;
    ++limited_;
    return false;
  }
  alarm->suppressed_count = known.since;
  known = {.told_ns = std::max<uint64_t>(alarm->time_ns, 1), .since = 0, .severity = alarm->severity};
  ++told_;
  return true;
}

}  // namespace brink::cfi
