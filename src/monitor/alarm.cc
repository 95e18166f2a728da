#include "monitor/alarm.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/proc_task.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostAncestors = 8, kMostArgs = 32, kMostArgBytes = 256;
constexpr uint64_t kTickNs = 10'000'000;

std::string Link(const std::string& path) {
  char text[4096];
  const ssize_t n = readlink(path.c_str(), text, sizeof text);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

uint64_t Namespace(const std::string& proc, const char* name) {
  struct stat info;
  return stat((proc + "/ns/" + name).c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string BootId() {
  auto text = ReadFile("/proc/sys/kernel/random/boot_id", 64);
  return text.ok() ? std::string(Trim(*text)).substr(0, 8) : "00000000";
}

int64_t Number(const std::string& path) {
  auto text = ReadFile(path, 64);
  auto number = text.ok() ? ParseUint(Trim(*text)) : StatusOr<uint64_t>(NotFound(""));
  return number.ok() && *number != UINT32_MAX ? static_cast<int64_t>(*number) : -1;
}

}  // namespace

Policy MainPolicy(const Alarm& alarm) { return alarm.violations.empty() ? Policy::kGadgets : alarm.violations[0].policy; }

uint32_t ScoreOf(const std::vector<Violation>& violations, const brink_cfi& context) {
  constexpr uint32_t kWeight[] = {2, 15, 45, 75};
  uint32_t score = 0;
  for (const Violation& v : violations) score += kWeight[static_cast<size_t>(v.severity)];
  if (context.verdict) score += 5;                                             // the kernel saw it too
  if (context.point == BRINK_CFI_ENTER || context.point == BRINK_CFI_LSM) score += 5;  // on the way to something
  return std::min(score, 100u);
}

ProcessFacts ReadProcess(int32_t pid, uint64_t start_ns) {
  ProcessFacts facts;
  static const std::string kBoot = BootId();
  facts.exec_id = absl::StrFormat("%s-%d-%d", kBoot, start_ns, pid);
  const std::string proc = "/proc/" + std::to_string(pid);
  auto stat = ReadTaskStat(pid);
  // Gone, or another one by this number.
  if (!stat.ok() || (start_ns && stat->start_ticks != start_ns / kTickNs)) return facts;
  facts.exe = Link(proc + "/exe");
  facts.cwd = Link(proc + "/cwd");
  if (auto text = ReadFile(proc + "/cmdline", 64u << 10); text.ok()) {
    for (std::string_view arg : Split(*text, '\0')) {
      if (facts.args.size() < kMostArgs) facts.args.emplace_back(arg.substr(0, kMostArgBytes));
    }
    if (!facts.args.empty() && facts.args.back().empty()) facts.args.pop_back();
  }
  facts.auid = Number(proc + "/loginuid");
  facts.pid_ns = Namespace(proc, "pid");
  facts.mnt_ns = Namespace(proc, "mnt");
  facts.net_ns = Namespace(proc, "net");
  for (pid_t at = stat->parent; at > 0 && facts.ancestors.size() < kMostAncestors;) {
    auto parent = ReadTaskStat(at);
    if (!parent.ok()) break;
    facts.ancestors.push_back({at, parent->comm, Link("/proc/" + std::to_string(at) + "/exe")});
    at = parent->parent;
  }
  return facts;
}

}  // namespace brink::cfi
