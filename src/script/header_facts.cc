// `brink script --dump-header`: what a recording says before its first sample.
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"
#include "perfdata/notes.h"
#include "script/names.h"
#include "script/script.h"

namespace brink::script {
namespace {

using Json = nlohmann::ordered_json;
using perfdata::EventInfo;
using perfdata::Features;
using perfdata::FileFacts;

constexpr const char* kSampleNames[] = {"ip", "tid", "time", "addr", "read", "callchain", "id", "cpu", "period", "stream_id", "raw", "branch_stack",
                                        "regs_user", "stack_user", "weight", "data_src", "identifier", "transaction", "regs_intr", "phys_addr",
                                        "aux", "cgroup", "data_page_size", "code_page_size", "weight_struct"};
constexpr const char* kBranchNames[] = {"u", "k", "hv", "any", "any_call", "any_ret", "ind_call", "abort_tx", "in_tx", "no_tx", "cond", "stack",
                                        "ind_jmp", "call", "no_flags", "no_cycles", "save_type", "hw_index", "priv", "counter"};
constexpr const char* kFeatureNames[] = {"", "tracing_data", "build_id", "hostname", "osrelease", "version", "arch", "nrcpus", "cpudesc", "cpuid",
                                         "total_mem", "cmdline", "event_desc", "cpu_topology", "numa_topology", "branch_stack", "pmu_mappings",
                                         "group_desc", "auxtrace", "stat", "cache", "sample_time", "mem_topology", "clockid", "dir_format",
                                         "bpf_prog_info", "bpf_btf", "compressed", "cpu_pmu_caps", "clock_data", "hybrid_topology", "pmu_caps"};

template <size_t N>
Json BitNames(uint64_t bits, const char* const (&names)[N]) {
  Json out = Json::array();
  for (size_t i = 0; i < 64; ++i) {
    if (bits >> i & 1) out.push_back(i < N ? std::string(names[i]) : "bit " + std::to_string(i));
  }
  return out;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(EscapeForTerminal(text)); }

Json FeatureList(const FileFacts& facts) {
  Json out = Json::array();
  for (size_t i = 0; i < perfdata::kFeatureLimit; ++i) {
    if (facts.header.features[i / 64] >> (i % 64) & 1) out.push_back(i < std::size(kFeatureNames) ? std::string(kFeatureNames[i]) : "bit " + std::to_string(i));
  }
  return out;
}

Json EventFacts(const EventInfo& event) {
  Json out = {{"name", EscapeForTerminal(event.name)},
              {"type", event.attr.type},
              {"config", absl::StrFormat("0x%x", event.attr.config)},
              {"attr_size", event.attr.size},
              {event.attr.flags & perfdata::kAttrFreq ? "frequency" : "period", event.attr.sample_period},
              {"sample_type", BitNames(event.attr.sample_type, kSampleNames)},
              {"branch_type", BitNames(event.attr.branch_sample_type, kBranchNames)},
              {"sample_id_all", (event.attr.flags & perfdata::kAttrSampleIdAll) != 0},
              {"ids", event.ids.size()}};
  if (event.notes) {
    out["source"] = SourceName(event.notes->source);
    out["direction"] = DirectionName(event.notes->direction);
    out["contiguous"] = event.notes->contiguous;
  }
  return out;
}

Json FileSectionFacts(const FileFacts& facts) {
  Json out = {{"mode", facts.pipe ? "pipe" : "file"}, {"version", facts.version1 ? 1 : 2}, {"byte_order", facts.big_endian ? "big" : "little"}};
  if (facts.pipe) return out;
  out["size"] = facts.file_size;
  out["attr_size"] = facts.header.attr_size - sizeof(perfdata::FileSection);
  out["data_offset"] = facts.header.data.offset;
  out["data_size"] = facts.header.data.size;
  out["finished"] = !facts.unfinished;
  out["features"] = FeatureList(facts);
  return out;
}

Json MachineFacts(const Features& features) {
  Json cmdline = nullptr;
  if (!features.cmdline.empty()) {
    cmdline = Json::array();
    for (const std::string& word : features.cmdline) cmdline.push_back(EscapeForTerminal(word));
  }
  Json out = {{"hostname", TextOrNull(features.hostname)}, {"os_release", TextOrNull(features.os_release)},
              {"recorded_by", TextOrNull(features.version)}, {"arch", TextOrNull(features.arch)},
              {"cpu", TextOrNull(features.cpu_desc)}, {"cpuid", TextOrNull(features.cpuid)}};
  out["cpus_online"] = features.cpus_available ? Json(features.cpus_online) : Json(nullptr);
  out["memory_kb"] = features.total_mem_kb ? Json(features.total_mem_kb) : Json(nullptr);
  out["command"] = cmdline;
  return out;
}

Json Facts(const perfdata::Reader& reader) {
  const Features& features = reader.features();
  Json out = {{"schema", "brink.recording.v1"}, {"file", FileSectionFacts(reader.facts())}, {"machine", MachineFacts(features)}};
  out["events"] = Json::array();
  for (const EventInfo& event : reader.events()) out["events"].push_back(EventFacts(event));
  out["sample_time_ns"] = features.sample_time ? Json({features.sample_time->first, features.sample_time->second}) : Json(nullptr);
  out["compressed"] = features.compressed ? Json({{"level", features.compressed->level}, {"ratio", features.compressed->ratio}}) : Json(nullptr);
  out["build_ids"] = Json::array();
  for (const auto& entry : features.build_ids) {
    out["build_ids"].push_back({{"build_id", HexEncode(entry.build_id)}, {"file", EscapeForTerminal(entry.filename)}});
  }
  return out;
}

// Two levels are enough for text: names, then what belongs to them.
std::string Line(const Json& value) {
  if (value.is_null()) return "not recorded";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string out;
    for (const Json& item : value) out += (out.empty() ? "" : " ") + Line(item);
    return out;
  }
  if (value.is_object()) {
    std::string out;
    for (const auto& [key, item] : value.items()) out += (out.empty() ? "" : ", ") + key + " " + Line(item);
    return out;
  }
  return AsciiJson(value);
}

}  // namespace

std::string HeaderFacts(const perfdata::Reader& reader, bool json) {
  Json facts = Facts(reader);
  if (json) return AsciiJson(facts) + "\n";
  std::string out;
  for (const auto& [key, value] : facts.items()) {
    if (key == "schema") continue;
    if (value.is_array() && (key == "events" || key == "build_ids")) {
      for (const Json& item : value) out += (key == "events" ? "event: " : "build id: ") + Line(item) + "\n";
    } else if (value.is_object()) {
      for (const auto& [name, item] : value.items()) out += name + ": " + Line(item) + "\n";
    } else {
      out += key + ": " + Line(value) + "\n";
    }
  }
  return out;
}

}  // namespace brink::script
