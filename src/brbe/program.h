// The sequence of writes that starts BRBE with a filter, in the right order, as assembler, C or words.
#pragma once

#include <string>
#include <vector>

#include "filter/plan.h"

namespace brink::brbe {

struct ProgramOptions {
  bool vhe = false;      // runs at EL2 with E2H = 1
  bool el2 = true;       // EL2 is implemented (its copies of CC and MPRED count)
  bool cycles = true;
  bool flags = true;
  bool freeze = true;    // FZP
};

struct Step {
  enum class What { kComment, kPause, kIsb, kInvalidate, kWrite } what = What::kComment;
  std::string reg;   // kWrite: as the instruction names it
  uint64_t value = 0;
  std::string text;  // comment: why
};

struct Program {
  uint64_t brbfcr = 0;
  uint64_t brbcr_el1 = 0;  // the EL1 register
  uint64_t brbcr_el2 = 0;
  std::vector<Step> steps;
  std::vector<std::string> software;  // what BRBE cannot filter, left to the reader
};

// From a plan of an expression: kinds, EnI where it needs fewer bits, levels by privilege, exceptions and returns where
// the kinds ask for them.
Program MakeProgram(const filter::Plan& plan, const ProgramOptions& options);

std::string ProgramAsm(const Program& program);      // GNU assembler, assembles without -march=...+brbe
std::string ProgramC(const Program& program);        // a function for a kernel or firmware
std::string ProgramExplain(const Program& program);  // numbered steps

}  // namespace brink::brbe
