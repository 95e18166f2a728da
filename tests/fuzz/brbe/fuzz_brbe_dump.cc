// Register dumps of any shape: what is decoded encodes back, what cannot be is reported, and the model takes every record.
#include <cstdlib>
#include <string_view>

#include "brbe/dump.h"
#include "brbe/json.h"
#include "brbe/linux.h"
#include "brbe/model.h"
#include "brbe/registers.h"

using namespace brink::brbe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr DumpFormat kFormats[] = {DumpFormat::kAuto, DumpFormat::kText, DumpFormat::kJson, DumpFormat::kTriples, DumpFormat::kPlanes};
  auto dump = ParseDump(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1), kFormats[data[0] % 5]);
  if (!dump.ok()) return 0;
  if (dump->records.size() > 64) std::abort();
  auto model = *Model::Create({.numrec = 8});
  for (size_t i = 0; i < dump->records.size(); ++i) {
    const Record& record = dump->records[i];
    if (DecodeRecord(EncodeInf(record), record.source, record.target) != record) std::abort();
    const Cycles cycles = CycleCount(record);
    // A count is never made up: what a 20-bit counter cannot hold is no count.
    if (cycles.state == Cycles::State::kKnown && cycles.value >= 1u << 20) std::abort();
    if (cycles.state == Cycles::State::kReserved && record.valid != Valid::kInvalid && RecordProblems(record, {}).empty()) std::abort();
    RecordText(record, i);
    model.Inject(record);
  }
  for (const auto& [name, value] : dump->registers) {
    if (EncodeRegister(DecodeRegister(*FindRegister(name), value)) != value) std::abort();
  }
  if (ToPerf(dump->records, {}).size() > dump->records.size()) std::abort();
  DumpJson(*dump, {}, true);
  return 0;
}
