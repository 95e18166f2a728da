#include "report/program.h"

#include <absl/strings/str_format.h>

namespace brink::report {

std::string Program::NameAt(const Location& location) {
  const symbol::Function& function = (*symbolizer)[symbolizer->FunctionAt(location)];
  if (!function.resolved()) return absl::StrFormat("%s+%#x", function.name, location.offset);
  uint64_t vaddr = symbolizer->VaddrOf(location).value_or(location.offset);
  if (vaddr == function.start) return function.name;
  return absl::StrFormat("%s+%#x", function.name, vaddr - function.start);
}

void Program::FillKinds() {
  for (BranchStat& branch : aggregate.branches) {
    if (branch.kind != Kind::kUnknown) continue;
    auto code = symbolizer->CodeAt(branch.from, kMaxInstruction);
    if (!code.ok()) continue;
    auto vaddr = symbolizer->VaddrOf(branch.from);
    auto instruction = DecodeOne(*code, vaddr.value_or(0), symbolizer->MachineOf(branch.from.object));
    if (!instruction) continue;
    branch.kind = instruction->kind;
    // An entry whose source is no branch is an interrupt or exception taken there.
    if (!instruction->branch && symbol::AddressSpaces::IsKernel(branch.to.offset)) branch.kind = Kind::kIrq;
  }
}

}  // namespace brink::report
