#include "report/annotate.h"

#include <algorithm>

namespace brink::report {

Annotator::Annotator(Program* program) : program_(*program), coverage_(program->aggregate.ranges) {
  for (const BranchStat& branch : program_.aggregate.branches) {
    At& at = from_[branch.from];
    at.taken += branch.count;
    at.mispredicted += branch.mispredicted;
    at.known += branch.known();
    at.cycles += branch.cycles;
    at.cycle_count += branch.cycle_count;
    if (at.kind == Kind::kUnknown) at.kind = branch.kind;
    at.branches.push_back(&branch);
    to_[branch.to] += branch.count;
  }
}

void Annotator::Fill(const Location& location, AnnotatedInstruction* out) {
  if (program_.aggregate.any_contiguous) {
    out->executed = coverage_.Covering(location);
    if (out->kind == Kind::kCond) out->passed = coverage_.Passing(location);
  }
  auto found = from_.find(location);
  if (found == from_.end()) return;
  const At& at = found->second;
  out->taken = at.taken;
  out->mispredicted = at.mispredicted;
  out->known = at.known;
  out->cycles = at.cycles;
  out->cycle_count = at.cycle_count;
  if (out->kind == Kind::kUnknown) out->kind = at.kind;
  // The newest and oldest branches of a stack end no range, but were executed.
  if (out->executed) out->executed = std::max(*out->executed, at.taken + out->passed.value_or(0));
  std::vector<const BranchStat*> sorted = at.branches;
  std::sort(sorted.begin(), sorted.end(), [](const BranchStat* a, const BranchStat* b) { return a->count != b->count ? a->count > b->count : a->to < b->to; });
  for (const BranchStat* branch : sorted) {
    if (out->targets.size() == 8) break;
    out->targets.push_back({program_.NameAt(branch->to), branch->count});
  }
}

StatusOr<AnnotatedFunction> Annotator::Annotate(FunctionId id) {
  symbol::Symbolizer& symbolizer = *program_.symbolizer;
  AnnotatedFunction annotated;
  annotated.function = symbolizer[id];
  annotated.object = program_.objects[annotated.function.object].ShortName();
  if (!annotated.function.resolved()) return NotFound(annotated.function.name + ": " + std::string(symbol::UnresolvedName(annotated.function.reason)));
  auto start = symbolizer.LocationOf(annotated.function.object, annotated.function.start);
  if (!start) return NotFound(annotated.function.name + ": its code is not in the file");
  uint64_t size = std::min(annotated.function.end - annotated.function.start, kMaxAnnotated);
  ASSIGN_OR_RETURN(std::string code, symbolizer.CodeAt(*start, size));
  uint16_t machine = symbolizer.MachineOf(annotated.function.object);
  std::vector<Instruction> instructions = Disassemble(code, annotated.function.start, machine);
  if (instructions.empty()) return Unimplemented(annotated.object + ": code of this machine is not disassembled");
  bool after_branch = true;
  for (Instruction& instruction : instructions) {
    AnnotatedInstruction out{.address = instruction.address, .text = std::move(instruction.text), .branch = instruction.branch, .kind = instruction.kind};
    Location location{start->object, start->offset + (instruction.address - annotated.function.start)};
    Fill(location, &out);
    out.block_start = after_branch || to_.contains(location);
    after_branch = instruction.branch;
    auto frames = symbolizer.FramesAt(location);
    if (!frames.empty()) {
      out.file = std::move(frames[0].file);
      out.line = frames[0].line;
      if (frames[0].inlined) out.inlined = std::move(frames[0].function);
    }
    annotated.most_executed = std::max(annotated.most_executed, out.executed.value_or(out.taken));
    annotated.branches += out.taken;
    annotated.instructions.push_back(std::move(out));
  }
  return annotated;
}

}  // namespace brink::report
