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

Kind Program::KindAt(const Location& from, bool to_kernel) {
  auto code = symbolizer->CodeAt(from, kMaxInstruction);
  if (!code.ok()) return Kind::kUnknown;
  auto instruction = DecodeOne(*code, symbolizer->VaddrOf(from).value_or(0), symbolizer->MachineOf(from.object));
  if (!instruction) return Kind::kUnknown;
  // An entry whose source is no branch is an interrupt or exception taken there.
  return !instruction->branch && to_kernel ? Kind::kIrq : instruction->kind;
}

void Program::FillKinds() {
  for (BranchStat& branch : aggregate.branches) {
    if (branch.kind == Kind::kUnknown) branch.kind = KindAt(branch.from, symbol::AddressSpaces::IsKernel(branch.to.offset));
  }
}

}  // namespace brink::report
