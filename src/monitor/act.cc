#include "monitor/act.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/fd.h"
#include "base/output_file.h"
#include "base/strings.h"
#include "cfi/side_text.h"
#include "monitor/registers.h"

namespace brink::cfi {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string SnapshotJson(const Alarm& alarm, const Look& look, const TextOptions& options) {
  Json registers = Json::object(), at_check = Json::array();
  for (size_t i = 0; i < BRINK_CFI_REGS; ++i) registers[kRegisters[i]] = Hex(alarm.context.regs[i]);
  for (uint32_t i = 0; i < alarm.context.stack_words; ++i) at_check.push_back(Hex(alarm.context.stack[i]));
  Json json = {{"schema", "brink.cfi.snapshot.v1"}, {"alarm", Json::parse(AlarmJson(alarm, options))}, {"registers", registers}, {"stack_at_check", at_check}, {"stack_now", nullptr}, {"maps", nullptr}};
  if (!look.stack.empty()) json["stack_now"] = HexEncode(look.stack);
  if (!look.maps.empty()) json["maps"] = look.maps;
  return AsciiJson(json) + "\n";
}

bool Actor::Spend(Budget* budget, uint64_t time_ns) const {
  const uint64_t minute = time_ns / 60'000'000'000;
  if (budget->minute != minute) *budget = {.minute = minute, .used = 0};
  return budget->used++ < options_.per_minute;
}

// Ends or stops a process that is still the one that was meant.
std::string Actor::Signal(const Alarm& alarm, int signal) {
  const bool listed = std::find(options_.spared.begin(), options_.spared.end(), alarm.comm) != options_.spared.end();
  if (alarm.pid <= 1 || alarm.pid == getpid() || listed) return "spared";
  if (!options_.act) return "dry run";
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, alarm.pid, 0)));
  if (!fd.valid() || !IsStillTheSame(alarm.pid, alarm.start_ns)) return "gone before";
  if (!Spend(&signals_, alarm.time_ns)) return "limit of the minute";
  return syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0 ? "done" : ErrnoError(errno, "signal").ToString();
}

std::string Actor::Snapshot(const Alarm& alarm) {
  if (options_.snapshots.empty()) return "no --snapshots DIR";
  if (snapshots_made_ >= options_.most_snapshots) return "limit of the run";
  if (!Spend(&snapshots_, alarm.time_ns)) return "limit of the minute";
  const std::string path = absl::StrFormat("%s/cfi-%d-%d.json", options_.snapshots, alarm.pid, alarm.time_ns);
  Status written = ReplaceFile(path, SnapshotJson(alarm, onlooker_.At(alarm.pid, alarm.start_ns, alarm.context.regs[kSpRegister]), options_.text));
  snapshots_made_ += written.ok();
  return written.ok() ? path : std::string(written.message());
}

void Actor::Take(const PolicyView& view, Alarm* alarm) {
  if (view.action == Action::kAlert || alarm->severity < view.action_at || !alarm->suppressed_by.empty()) return;
  std::string result;
  // Before the process is gone.
  if (view.action == Action::kSnapshot || !options_.snapshots.empty()) result = Snapshot(*alarm);
  alarm->action = ActionName(view.action);
  alarm->action_result = view.action == Action::kSnapshot ? result : Signal(*alarm, view.action == Action::kKill ? SIGKILL : SIGSTOP);
}

}  // namespace brink::cfi
