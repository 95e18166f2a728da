// Register dumps as debuggers, kdump or firmware give them -> records.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "brbe/record.h"

namespace brink::brbe {

struct Dump {
  std::map<std::string, uint64_t> registers;  // BRBCR_EL1, BRBFCR_EL1, ... as given
  std::vector<Record> records;                // by record number, newest first
  std::vector<std::string> problems;          // what was left out or contradicts itself
};

enum class DumpFormat { kAuto, kText, kJson, kTriples, kPlanes };

// kText: register names and numbers in any layout ("BRBINF0_EL1 = 0x3", "brbsrc3: 401000"); `bank 1` switches the bank.
// kJson: {"BRBIDR0_EL1": "0x5040", "banks": [[{"inf": "0x3", "src": "0x1", "tgt": "0x2"}, ...], [...]]} or "records".
// kTriples: little-endian 64-bit INF, SRC, TGT a record; kPlanes: all INF, then all SRC, then all TGT.
// kAuto tells text, JSON and triples apart. At most 64 records and 1 MiB.
StatusOr<Dump> ParseDump(std::string_view content, DumpFormat format);

}  // namespace brink::brbe
