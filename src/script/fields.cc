#include "script/fields.h"

#include "base/strings.h"
#include "perfdata/format.h"

namespace brink::script {
namespace {

struct FieldEntry {
  std::string_view name;
  Field field;
  uint64_t needs;
};

constexpr FieldEntry kFields[] = {
    {"comm", kComm, 0},
    {"pid", kPid, perfdata::kSampleTid},
    {"tid", kTid, perfdata::kSampleTid},
    {"time", kTime, perfdata::kSampleTime},
    {"cpu", kCpu, perfdata::kSampleCpu},
    {"period", kPeriod, perfdata::kSamplePeriod},
    {"event", kEvent, 0},
    {"addr", kAddr, perfdata::kSampleAddr},
    {"ip", kIp, perfdata::kSampleIp},
    {"sym", kSym, perfdata::kSampleIp},
    {"brstack", kBrstack, perfdata::kSampleBranchStack},
    {"brstacksym", kBrstacksym, perfdata::kSampleBranchStack},
    {"weight", kWeight, perfdata::kSampleWeight | perfdata::kSampleWeightStruct},
};

}  // namespace

StatusOr<uint32_t> ParseFields(std::string_view text) {
  uint32_t fields = 0;
  for (std::string_view name : Split(text, ',')) {
    const FieldEntry* found = nullptr;
    for (const FieldEntry& entry : kFields) {
      if (entry.name == name) found = &entry;
    }
    if (!found) {
      std::string known;
      for (const FieldEntry& entry : kFields) known.append(known.empty() ? "" : " ").append(entry.name);
      return InvalidArgument("unknown field '" + EscapeForTerminal(name) + "'; there are: " + known);
    }
    fields |= found->field;
  }
  return fields;
}

std::string_view FieldName(Field field) {
  for (const FieldEntry& entry : kFields) {
    if (entry.field == field) return entry.name;
  }
  return "?";
}

uint64_t SampleBitsFor(Field field) {
  for (const FieldEntry& entry : kFields) {
    if (entry.field == field) return entry.needs;
  }
  return 0;
}

}  // namespace brink::script
