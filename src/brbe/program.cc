#include "brbe/program.h"

#include <bit>

#include <absl/strings/str_format.h>

#include "brbe/registers.h"
#include "filter/branch_flags.h"
#include "filter/hardware.h"
#include "filter/names.h"

namespace brink::brbe {
namespace {

using namespace filter;

uint64_t FilterBits(const Plan& plan) {
  const uint64_t wanted = FinestBrbfcr(plan.kinds);
  const uint64_t unwanted = kFcrKinds & ~wanted;
  // `exclude ret`: one bit with EnI rather than five without.
  if (unwanted && std::popcount(unwanted) < std::popcount(wanted)) return unwanted | kFcrEnI;
  return wanted;
}

std::string EncodingOf(const std::string& reg) { return FindRegister(reg)->encoding; }

void Write(Program& program, const char* reg, uint64_t value, std::string text) {
  program.steps.push_back({Step::What::kWrite, reg, value, std::move(text)});
}
void Isb(Program& program, std::string text) { program.steps.push_back({Step::What::kIsb, "", 0, std::move(text)}); }

}  // namespace

Program MakeProgram(const Plan& plan, const ProgramOptions& options) {
  Program program;
  program.software = plan.software;
  std::erase_if(program.software, [](const std::string& s) { return s.find("perf has no flag for direct jumps") != std::string::npos || s.find("perf flags also") != std::string::npos; });
  program.brbfcr = FilterBits(plan);
  const bool user = plan.branch_bits & kBranchUser, kernel = plan.branch_bits & kBranchKernel, hv = plan.branch_bits & kBranchHv;
  const bool exceptions = plan.kinds & (KindBit(Kind::kSyscall) | KindBit(Kind::kIrq));
  const bool returns = plan.kinds & (KindBit(Kind::kSysret) | KindBit(Kind::kEret));
  uint64_t common = uint64_t{1} << kCrTsShift;
  if (options.freeze) common |= kCrFzp;
  if (options.cycles) common |= kCrCc;
  if (options.flags) common |= kCrMpred;
  uint64_t own = common;
  if (exceptions) own |= kCrException;
  if (returns) own |= kCrErtn;
  if (user) own |= kCrE0Bre;
  if (kernel || (hv && options.vhe)) own |= kCrExBre;
  if (options.vhe) {
    program.brbcr_el2 = own;
    program.brbcr_el1 = own & ~(kCrExBre | kCrE0Bre);
  } else {
    program.brbcr_el1 = own;
    if (options.el2) program.brbcr_el2 = common & (kCrCc | kCrMpred);
    if (hv && options.el2) program.brbcr_el2 |= kCrExBre;
  }
  program.steps.push_back({Step::What::kPause, "BRBFCR_EL1", 0, "pause by read-modify-write, so that nothing is recorded half configured"});
  Isb(program, "the pause is in force");
  program.steps.push_back({Step::What::kInvalidate, "", 0, "BRB IALL: no record of before"});
  Isb(program, "invalidated before recording begins");
  if (options.vhe) {
    Write(program, "BRBCR_EL12", program.brbcr_el1, "the EL1 register: FZP, CC and MPRED of this copy count too, its enables are 0 (guests are not recorded)");
    Isb(program, "between accesses through different names");
    Write(program, "BRBCR_EL1", program.brbcr_el2, "reaches BRBCR_EL2, because E2H is 1");
  } else {
    if (options.el2) Write(program, "BRBCR_EL2", program.brbcr_el2, "from EL2, or by what booted the kernel: CC and MPRED need both copies");
    Write(program, "BRBCR_EL1", program.brbcr_el1, "levels, exceptions, freeze, clock");
  }
  Isb(program, "the configuration is in force before recording begins");
  Write(program, "BRBFCR_EL1", program.brbfcr, "last: the kinds, BANK 0, and PAUSED becomes 0, so recording begins");
  Isb(program, "");
  return program;
}

std::string ProgramAsm(const Program& program) {
  std::string out = "// BRBE start-up. Registers by encoding, so that no -march is needed.\n";
  for (const std::string& s : program.software) absl::StrAppendFormat(&out, "// left to software: %s\n", s);
  auto load = [&](uint64_t value) {
    absl::StrAppendFormat(&out, "\tmovz\tx0, #0x%x\n", value & 0xffff);
    for (int shift = 16; shift < 64; shift += 16) {
      if (value >> shift & 0xffff) absl::StrAppendFormat(&out, "\tmovk\tx0, #0x%x, lsl #%d\n", value >> shift & 0xffff, shift);
    }
  };
  for (const Step& step : program.steps) {
    if (!step.text.empty()) absl::StrAppendFormat(&out, "\t// %s\n", step.text);
    switch (step.what) {
      case Step::What::kComment:
        break;
      case Step::What::kPause:
        absl::StrAppendFormat(&out, "\tmrs\tx0, %s\t// %s\n\torr\tx0, x0, #0x80\n\tmsr\t%s, x0\n", EncodingOf(step.reg), step.reg, EncodingOf(step.reg));
        break;
      case Step::What::kIsb:
        out += "\tisb\n";
        break;
      case Step::What::kInvalidate:
        out += "\tsys\t#1, c7, c2, #4\t// brb iall\n";
        break;
      case Step::What::kWrite:
        load(step.value);
        absl::StrAppendFormat(&out, "\tmsr\t%s, x0\t// %s = 0x%X\n", EncodingOf(step.reg), step.reg, step.value);
        break;
    }
  }
  return out;
}

std::string ProgramC(const Program& program) {
  std::string out =
      "/* BRBE start-up, for code that owns the registers (a kernel without a driver, firmware). */\n"
      "#define BRBE_MSR(encoding, value) __asm__ volatile(\"msr \" #encoding \", %0\" : : \"r\"((unsigned long)(value)))\n"
      "#define BRBE_MRS(encoding, value) __asm__ volatile(\"mrs %0, \" #encoding : \"=r\"(value))\n"
      "#define BRBE_ISB() __asm__ volatile(\"isb\" : : : \"memory\")\n"
      "#define BRBE_IALL() __asm__ volatile(\"sys #1, c7, c2, #4\" : : : \"memory\")\n\n"
      "static inline void brbe_start(void)\n{\n\tunsigned long fcr;\n\n";
  for (const std::string& s : program.software) absl::StrAppendFormat(&out, "\t/* left to software: %s */\n", s);
  for (const Step& step : program.steps) {
    if (!step.text.empty()) absl::StrAppendFormat(&out, "\t/* %s */\n", step.text);
    switch (step.what) {
      case Step::What::kComment:
        break;
      case Step::What::kPause:
        absl::StrAppendFormat(&out, "\tBRBE_MRS(%s, fcr);\n\tBRBE_MSR(%s, fcr | 0x80UL);\n", EncodingOf(step.reg), EncodingOf(step.reg));
        break;
      case Step::What::kIsb:
        out += "\tBRBE_ISB();\n";
        break;
      case Step::What::kInvalidate:
        out += "\tBRBE_IALL();\n";
        break;
      case Step::What::kWrite:
        absl::StrAppendFormat(&out, "\tBRBE_MSR(%s, 0x%XUL); /* %s */\n", EncodingOf(step.reg), step.value, step.reg);
        break;
    }
  }
  return out + "}\n";
}

std::string ProgramExplain(const Program& program) {
  std::string out = absl::StrFormat("BRBFCR_EL1 = 0x%X, BRBCR_EL1 = 0x%X, BRBCR_EL2 = 0x%X\n", program.brbfcr, program.brbcr_el1, program.brbcr_el2);
  int number = 0;
  for (const Step& step : program.steps) {
    std::string what;
    switch (step.what) {
      case Step::What::kComment: what = "note"; break;
      case Step::What::kPause: what = "set PAUSED in " + step.reg; break;
      case Step::What::kIsb: what = "ISB"; break;
      case Step::What::kInvalidate: what = "BRB IALL"; break;
      case Step::What::kWrite: what = absl::StrFormat("write %s = 0x%X", step.reg, step.value); break;
    }
    absl::StrAppendFormat(&out, "%2d. %-32s %s\n", ++number, what, step.text);
  }
  out += "reading: pause and ISB first; for more than 32 records write BANK by read-modify-write (PAUSED stays 1), ISB, read again; hardware never clears PAUSED\n";
  for (const std::string& s : program.software) out += "left to software: " + s + "\n";
  return out;
}

}  // namespace brink::brbe
