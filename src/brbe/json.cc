#include "brbe/json.h"

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"

namespace brink::brbe {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }
// Words of the user may be anything; JSON is UTF-8.
std::string Print(const Json& json) { return AsciiJson(json); }

Json CyclesOf(const Record& record) {
  Cycles cycles = CycleCount(record);
  return cycles.state == Cycles::State::kKnown ? Json(cycles.value) : Json(nullptr);
}

Json RecordOf(const Record& r, size_t index, const RecordRules& rules) {
  constexpr const char* kValid[] = {"invalid", "target_only", "source_only", "complete"};
  const bool source = r.valid == Valid::kComplete || r.valid == Valid::kSourceOnly;
  const bool target = r.valid == Valid::kComplete || r.valid == Valid::kTargetOnly;
  Json json = {{"index", index}, {"valid", kValid[static_cast<int>(r.valid)]}};
  if (r.valid == Valid::kInvalid) return json;
  std::string type(TypeName(r.type));
  json["type"] = type.empty() ? Json(nullptr) : Json(type);
  json["type_code"] = r.type;
  json["kind"] = KindName(KindOfType(r.type));
  json["from"] = source ? Json(Hex(r.source)) : Json(nullptr);
  json["to"] = target ? Json(Hex(r.target)) : Json(nullptr);
  json["el"] = target ? Json(r.el) : Json(nullptr);
  json["mispredicted"] = source && !IsException(r.type) ? Json(r.mpred) : Json(nullptr);
  json["cycles"] = CyclesOf(r);
  json["cycles_overflowed"] = CycleCount(r).state == Cycles::State::kOverflow;
  json["in_transaction"] = r.transaction;
  json["last_failed"] = r.last_failed;
  json["problems"] = RecordProblems(r, rules);
  return json;
}

}  // namespace

std::string RegisterJson(std::string_view name, const Decoded& decoded) {
  Json fields = Json::object(), words = Json::object();
  for (const FieldValue& f : decoded.fields) {
    fields[f.spec->name] = f.value > UINT32_MAX ? Json(Hex(f.value)) : Json(f.value);
    if (!f.word.empty()) words[f.spec->name] = f.word;
  }
  return Print({{"schema", "brink.brbe.register.v1"},
                {"register", name},
                {"value", Hex(decoded.raw)},
                {"fields", fields},
                {"words", words},
                {"reserved", Hex(decoded.reserved)},
                {"problems", decoded.problems}});
}

std::string DumpJson(const Dump& dump, const RecordRules& rules, bool all) {
  Json json = {{"schema", "brink.brbe.dump.v1"}};
  Json registers = Json::object();
  for (const auto& [name, value] : dump.registers) registers[name] = Hex(value);
  json["registers"] = registers;
  Json records = Json::array();
  for (size_t i = 0; i < dump.records.size(); ++i) {
    if (dump.records[i].valid != Valid::kInvalid || all) records.push_back(RecordOf(dump.records[i], i, rules));
  }
  json["records"] = records;
  json["problems"] = dump.problems;
  return Print(json);
}

std::string ProgramJson(const Program& program) {
  constexpr const char* kWhat[] = {"comment", "pause", "isb", "invalidate", "write"};
  Json steps = Json::array();
  for (const Step& step : program.steps) {
    const bool write = step.what == Step::What::kWrite;
    steps.push_back({{"what", kWhat[static_cast<int>(step.what)]},
                     {"register", step.reg.empty() ? Json(nullptr) : Json(step.reg)},
                     {"value", write ? Json(Hex(step.value)) : Json(nullptr)},
                     {"why", step.text.empty() ? Json(nullptr) : Json(step.text)}});
  }
  return Print({{"schema", "brink.brbe.program.v1"},
                {"brbfcr_el1", Hex(program.brbfcr)},
                {"brbcr_el1", Hex(program.brbcr_el1)},
                {"brbcr_el2", Hex(program.brbcr_el2)},
                {"steps", steps},
                {"software", program.software}});
}

std::string DiagnoseJson(const Symptom& symptom, const Environment& environment) {
  Json causes = Json::array();
  for (const Cause& cause : symptom.causes) {
    Json verdicts = Json::array();
    for (const Verdict& v : VerdictsOn(cause, environment)) verdicts.push_back({{"verdict", v.word}, {"text", v.text}, {"hangs_on", v.hangs_on}});
    causes.push_back({{"cause", cause.cause}, {"look", cause.look}, {"remedy", cause.remedy}, {"verdicts", verdicts}});
  }
  return Print({{"schema", "brink.brbe.diagnose.v1"}, {"symptom", symptom.name}, {"summary", symptom.summary}, {"causes", causes}});
}

std::string ModelJson(std::span<const BranchEntry> records, const StreamCounters& counters) {
  constexpr const char* kPriv[] = {nullptr, "user", "kernel", "hv"};
  Json list = Json::array();
  for (size_t i = 0; i < records.size(); ++i) {
    const BranchEntry& e = records[i];
    const uint64_t priv = e.info >> 30 & 7;
    list.push_back({{"index", i},
                    {"kind", KindName(e.kind())},
                    {"from", e.from ? Json(Hex(e.from)) : Json(nullptr)},
                    {"to", e.to ? Json(Hex(e.to)) : Json(nullptr)},
                    {"priv", priv >= 1 && priv <= 3 ? Json(kPriv[priv]) : Json(nullptr)},
                    {"mispredicted", e.prediction() == Prediction::kUnknown ? Json(nullptr) : Json(e.prediction() == Prediction::kMispredicted)},
                    {"cycles", e.cycles() ? Json(e.cycles()) : Json(nullptr)}});
  }
  return Print({{"schema", "brink.brbe.model.v1"},
                {"records", list},
                {"seen", counters.seen},
                {"recorded", counters.recorded},
                {"unclassified", counters.unclassified},
                {"not_branches", counters.not_branches}});
}

}  // namespace brink::brbe
