#include <ctime>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "kernel/branch_plan.h"
#include "probe/report.h"

namespace brink {
namespace {

using Json = nlohmann::ordered_json;

std::string Rfc3339(uint64_t ns) {
  std::time_t seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm tm = {};
  ::gmtime_r(&seconds, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  return absl::StrFormat("%s.%09uZ", text, ns % 1'000'000'000);
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json OrNull(uint32_t number) { return number ? Json(number) : Json(nullptr); }

Json MachineJson(const MachineFacts& facts) {
  Json flags = Json::array();
  for (const BranchFlag& flag : BranchFlags()) {
    if (facts.branch_flags & flag.bit) flags.push_back(flag.name);
  }
  return {{"kernel", facts.kernel},
          {"arch", facts.arch},
          {"cpus_online", facts.cpus_online},
          {"cpu_vendor", CpuVendorName(facts.cpu.vendor)},
          {"cpu_model", OrNull(facts.cpu.model_name)},
          {"hypervisor", facts.cpu.hypervisor},
          {"pmus", facts.pmus},
          {"branch_depth", OrNull(facts.branch_depth)},
          {"branch_flags", flags},
          {"branch_event", OrNull(facts.branch_event)},
          {"perf_event_paranoid", facts.paranoid},
          {"kptr_restrict", facts.kptr_restrict},
          {"ptrace_scope", facts.yama_scope},
          {"unprivileged_bpf_disabled", facts.unprivileged_bpf_disabled},
          {"max_sample_rate", facts.max_sample_rate}};
}

Json CapabilitiesJson(const MachineFacts& facts) {
  Json out = Json::array();
  for (const CapabilityUse& use : CapabilityUses()) {
    out.push_back({{"name", CapabilityName(use.capability)}, {"held", facts.caps.Has(use.capability)}, {"needed", use.needed}, {"gives", use.gives}});
  }
  return out;
}

Json BurntJson(const std::vector<BurntEntries>& hooks) {
  if (hooks.empty()) return nullptr;
  Json out = Json::array();
  for (const BurntEntries& hook : hooks) {
    if (!hook.failed.empty()) {
      out.push_back({{"hook", hook.hook}, {"reason", hook.failed}, {"least", nullptr}, {"most", nullptr}, {"depth", nullptr}, {"runs", 0}, {"functions", Json::array()}});
    } else {
      out.push_back({{"hook", hook.hook}, {"reason", nullptr}, {"least", hook.least}, {"most", hook.most}, {"depth", hook.depth}, {"runs", hook.runs},
                     {"functions", hook.functions}});
    }
  }
  return out;
}

}  // namespace

std::string DoctorJson(const DoctorReport& report) {
  Json features = Json::array();
  for (const FeatureInfo& info : AllFeatures()) {
    const Finding& finding = report.features.Get(info.id);
    features.push_back({{"name", info.name},
                        {"group", info.group},
                        {"on", finding.on},
                        {"fake", finding.fake},
                        {"what", info.what},
                        {"reason", OrNull(finding.reason)},
                        {"remedy", OrNull(finding.remedy)},
                        {"detail", OrNull(finding.detail)}});
  }
  Json tracepoints = Json::array();
  for (const TracepointFinding& one : report.tracepoints) {
    tracepoints.push_back({{"name", one.use.name}, {"on", one.finding.on}, {"what", one.use.gives}, {"reason", OrNull(one.finding.reason)}});
  }
  SourceChoice choice = report.features.AutoSource();
  Json out = {{"schema", "brink.doctor.v1"},
              {"time", Rfc3339(report.realtime_ns)},
              {"monotonic_ns", report.monotonic_ns},
              {"version", report.version},
              {"machine", MachineJson(report.features.facts())},
              {"capabilities", CapabilitiesJson(report.features.facts())},
              {"setcap", SetcapLine()},
              {"features", features},
              {"burnt", BurntJson(report.burnt)},
              {"tracepoints", tracepoints},
              {"auto_source", {{"name", OrNull(choice.name)}, {"reason", choice.reason}}},
              {"took_ns", report.took_ns}};
  return AsciiJson(out) + "\n";
}

}  // namespace brink
