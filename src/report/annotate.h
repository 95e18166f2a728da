// One function, instruction by instruction, with what the recording knows of each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/blocks.h"
#include "report/program.h"
#include "report/source.h"

namespace brink::report {

struct Target {
  std::string name;
  uint64_t count = 0;
};

struct AnnotatedInstruction {
  uint64_t address = 0;              // link-time
  std::string text;
  std::string file;                  // "" unknown
  uint32_t line = 0;
  std::string inlined;               // function whose body was put here, "" none
  bool branch = false;
  Kind kind = Kind::kUnknown;
  bool block_start = false;          // a taken branch leads here, or one ended just before
  std::optional<uint64_t> executed;  // ranges over it; unknown without contiguous stacks
  uint64_t taken = 0;                // branches: times seen in the record
  std::optional<uint64_t> passed;    // conditionals: times the code ran on behind it
  uint64_t mispredicted = 0, known = 0;
  uint64_t cycles = 0, cycle_count = 0;  // of the straight code that ends with this branch
  std::vector<Target> targets;       // most frequent first, at most eight

  std::optional<double> taken_ratio() const {
    if (!passed || kind != Kind::kCond || taken + *passed == 0) return std::nullopt;
    return static_cast<double>(taken) / static_cast<double>(taken + *passed);
  }
};

struct AnnotatedFunction {
  symbol::Function function;
  std::string object;
  std::vector<AnnotatedInstruction> instructions;
  uint64_t most_executed = 0;
  uint64_t branches = 0;  // sum of taken
};

// Prepared once for many functions: sums by address.
class Annotator {
 public:
  explicit Annotator(Program* program);
  // NOT_FOUND with the reason when the code is not there; UNIMPLEMENTED for machines that are not disassembled.
  StatusOr<AnnotatedFunction> Annotate(FunctionId function);

 private:
  struct At {
    uint64_t taken = 0, mispredicted = 0, known = 0, cycles = 0, cycle_count = 0;
    Kind kind = Kind::kUnknown;
    std::vector<const BranchStat*> branches;
  };
  void Fill(const Location& location, AnnotatedInstruction* out);

  Program& program_;
  Coverage coverage_;
  absl::flat_hash_map<Location, At> from_;
  absl::flat_hash_map<Location, uint64_t> to_;
};

inline constexpr uint64_t kMaxAnnotated = 1u << 20;  // bytes of one function

struct AnnotateTextOptions {
  bool colour = false;
  bool source = true;
  bool all = false;  // instructions that never ran, too
};
std::string AnnotateText(const AnnotatedFunction& annotated, SourceFiles* sources, const AnnotateTextOptions& options);
// One JSON line an instruction, schema brink.annotate.v1.
std::string AnnotateJson(const AnnotatedFunction& annotated);

}  // namespace brink::report
