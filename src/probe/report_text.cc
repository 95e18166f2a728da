#include <linux/capability.h>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "base/units.h"
#include "probe/report.h"

namespace brink {
namespace {

constexpr CapabilityUse kUses[] = {
    {CAP_BPF, "loads BPF programs", true},
    {CAP_PERFMON, "events of other processes and of the kernel, BPF that traces", true},
    {CAP_SYS_PTRACE, "maps and memory of other users' processes; hop and step", false},
    {CAP_DAC_READ_SEARCH, "tracepoint ids, other users' binaries", false},
    {CAP_SYSLOG, "kernel symbol addresses", false},
    {CAP_IPC_LOCK, "side-band rings above about 512 pages a CPU", false},
    {CAP_SYS_ADMIN, "a private tracefs, uprobes on kernels that ask for it, run cgroups", false},
};

// Of what follows from another feature only that feature is named: its own line has the reason.
std::string RootOf(const std::string& reason) {
  std::string name = reason.substr(0, reason.find(": "));
  return ParseFeature(name).ok() ? name : "";
}

// Features that are bad news when they are on, or no news when off, are not counted as missing.
bool Counts(Feature feature) { return feature != Feature::kKernelRt && feature != Feature::kCgroupV1 && feature != Feature::kBpffs; }

std::string Line(const FeatureInfo& info, const Finding& finding, bool verbose) {
  std::string out = absl::StrFormat("  %s %-24s %s", finding.on ? "yes" : "no ", info.name, info.what);
  if (finding.fake) out += " [override]";
  if (!finding.detail.empty() && (verbose || !finding.on || info.id == Feature::kBranchStack || info.id == Feature::kBpfTaskWork)) {
    absl::StrAppend(&out, ": ", finding.detail);
  }
  out += "\n";
  if (finding.on || (!Counts(info.id) && !verbose)) return out;
  if (std::string root = RootOf(finding.reason); !root.empty()) return out + "        why: needs " + root + "\n";
  absl::StrAppend(&out, "        why: ", finding.reason, "\n");
  if (!finding.remedy.empty()) absl::StrAppend(&out, "        do:  ", finding.remedy, "\n");
  return out;
}

std::string Rights(const MachineFacts& facts) {
  std::string out = "rights\n";
  for (const CapabilityUse& use : kUses) {
    absl::StrAppendFormat(&out, "  %s %-24s %s%s\n", facts.caps.Has(use.capability) ? "yes" : "no ", CapabilityName(use.capability), use.gives,
                          use.needed ? "" : " (optional)");
  }
  absl::StrAppendFormat(&out, "  perf_event_paranoid %d, kptr_restrict %d, yama ptrace_scope %d, unprivileged_bpf_disabled %d, at most %u samples a second\n",
                        facts.paranoid, facts.kptr_restrict, facts.yama_scope, facts.unprivileged_bpf_disabled, facts.max_sample_rate);
  if (!facts.caps.BpfCapable() || !facts.caps.PerfmonCapable()) absl::StrAppend(&out, "  to run without root: ", SetcapLine(), "\n");
  return out;
}

std::string Burnt(const std::vector<BurntEntries>& hooks) {
  if (hooks.empty()) return "";
  bool none = std::all_of(hooks.begin(), hooks.end(), [&](const BurntEntries& hook) { return hook.failed == hooks[0].failed && !hook.failed.empty(); });
  if (none) return "\nsnapshots: not measured: " + hooks[0].failed + "\n";
  std::string out = "\nsnapshots: entries of a stack that the capture itself burns (trimmed by address)\n";
  for (const BurntEntries& hook : hooks) {
    if (!hook.failed.empty()) {
      absl::StrAppendFormat(&out, "  %-14s not measured: %s\n", hook.hook, hook.failed);
      continue;
    }
    std::string range = hook.least == hook.most ? absl::StrCat(hook.least) : absl::StrCat(hook.least, " to ", hook.most);
    absl::StrAppendFormat(&out, "  %-14s %s of %d in %d snapshots:", hook.hook, range, hook.depth, hook.runs);
    for (const std::string& function : hook.functions) absl::StrAppend(&out, " ", function);
    out += "\n";
  }
  return out;
}

std::string Tracepoints(const std::vector<TracepointFinding>& tracepoints) {
  if (tracepoints.empty()) return "";
  std::string out = "\ntracepoints of brink latency --blame\n";
  for (const TracepointFinding& one : tracepoints) {
    absl::StrAppendFormat(&out, "  %s %-32s %s\n", one.finding.on ? "yes" : "no ", one.use.name, one.use.gives);
    if (!one.finding.on) absl::StrAppend(&out, "        why: ", one.finding.reason, "\n");
  }
  return out;
}

}  // namespace

std::span<const CapabilityUse> CapabilityUses() { return kUses; }

std::string DoctorText(const DoctorReport& report, bool verbose) {
  const MachineFacts& facts = report.features.facts();
  std::string out = absl::StrFormat("%s on Linux %s %s, %d CPUs, %s%s\n", report.version, facts.kernel, facts.arch, facts.cpus_online,
                                    facts.cpu.model_name.empty() ? std::string(CpuVendorName(facts.cpu.vendor)) : facts.cpu.model_name,
                                    facts.cpu.hypervisor ? " (virtual machine)" : "");
  std::string group;
  int on = 0, all = 0;
  for (const FeatureInfo& info : AllFeatures()) {
    if (group != info.group) absl::StrAppend(&out, "\n", info.group, "\n");
    group = info.group;
    const Finding& finding = report.features.Get(info.id);
    out += Line(info, finding, verbose);
    if (!Counts(info.id)) continue;
    ++all;
    on += finding.on;
  }
  out += Tracepoints(report.tracepoints);
  absl::StrAppend(&out, "\n", Rights(facts));
  out += Burnt(report.burnt);
  SourceChoice choice = report.features.AutoSource();
  absl::StrAppend(&out, "\n--source auto takes ", choice.name.empty() ? "nothing" : choice.name, ": ", choice.reason, "\n");
  absl::StrAppendFormat(&out, "%d of %d features work; probed in %s\n", on, all, FormatDuration(report.took_ns));
  return out;
}

}  // namespace brink
