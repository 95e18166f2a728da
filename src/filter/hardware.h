// From perf's branch_sample_type bits to the registers of each branch hardware: what Linux programs for them.
//
// Pure tables. The values follow the kernel's drivers; where a driver refuses the bits, the result says so in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace brink::filter {

// LBR_SELECT of Intel (Sandy Bridge and later) and of AMD LbrExtV2: a set bit keeps a class of branches out.
uint64_t IntelLbrSelect(uint64_t branch_bits);
// Nehalem, Westmere, Silvermont: calls and returns need the jump bits too (erratum). nullopt: CALL has no mapping.
std::optional<uint64_t> NehalemLbrSelect(uint64_t branch_bits);
// IA32_LBR_CTL of architectural LBR: a set bit lets a class in.
uint64_t ArchLbrCtl(uint64_t branch_bits);
// nullopt: the driver refuses (transactions, call stack, no_flags, no_cycles).
std::optional<uint64_t> AmdLbrSelect(uint64_t branch_bits);

// Arm BRBE as Linux programs it.
struct BrbeRegisters {
  uint64_t brbfcr = 0;
  uint64_t brbcr = 0;        // of the exception level the kernel runs at
  uint64_t brbcr_el12 = 0;   // VHE: the EL1 copy, its enables cleared
  uint64_t brbcr_el2_nvhe = 0;  // without VHE: the EL2 copy that CC and MPRED need
};
// `vhe`: the kernel runs at EL2 (HV counts only then). nullopt: refused; `why` says what for.
std::optional<BrbeRegisters> LinuxBrbe(uint64_t branch_bits, bool vhe, std::string* why);

// The finest setting for a set of kinds (enum Kind bits), beyond what perf's bits can say.
uint64_t FinestLbrSelect(uint64_t kinds, uint64_t branch_bits);
uint64_t FinestBrbfcr(uint64_t kinds);

// Which BHRB filter Power has for the bits, in words.
std::string PowerBhrb(uint64_t branch_bits);

}  // namespace brink::filter
