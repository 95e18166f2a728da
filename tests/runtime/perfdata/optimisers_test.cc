// perf2bolt and llvm-profgen on recordings with the true branches of a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <unistd.h>

#include "base/fd.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "traced_program.h"

namespace brink::perfdata {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::ProcessResult;
using testing_support::TempDir;

constexpr const char* kPerf2Bolt = "/usr/lib/llvm-19/bin/perf2bolt";
constexpr const char* kProfgen = "/usr/bin/llvm-profgen-19";

// Collatz: two-way branches that are not to be foretold, a call in the loop, no library.
constexpr const char* kSource = R"(
__attribute__((noinline)) int odd(int x) { return 3 * x + 1; }
__attribute__((noinline)) int step(int x) { if (x & 1) return odd(x); return x / 2; }
__attribute__((noinline)) int walk(int x) { int n = 0; while (x != 1) { x = step(x); ++n; } return n; }
void _start(void) {
  volatile int sum = 0;
  for (int i = 1; i < 60; ++i) sum += walk(i);
  __asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
)";

ProcessResult Execute(const std::vector<std::string>& argv) { return testing_support::Run(argv); }

std::string BuildIdOf(const std::string& path) {
  std::smatch match;
  std::string text = Execute({"readelf", "-n", path}).out;
  if (!std::regex_search(text, match, std::regex("Build ID: ([0-9a-f]+)"))) return "";
  std::string hex = match[1], out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::vector<std::pair<std::string, uint64_t>> FunctionsOf(const std::string& path) {
  std::vector<std::pair<std::string, uint64_t>> out;
  std::istringstream lines(Execute({"nm", path}).out);
  std::string address, type, name;
  while (lines >> address >> type >> name) {
    if (type == "T" || type == "t") out.emplace_back(name, std::stoull(address, nullptr, 16));
  }
  return out;
}

// Stacks of `depth` one behind the other, so that each branch is in exactly one of them.
void WriteTrace(const std::string& path, const TracedProgram& program, size_t depth) {
  auto sink = OpenFileSink(path);
  ASSERT_THAT(sink, IsOk());
  WriterOptions options = OneEvent();
  options.features = CollectHostFeatures();
  options.events[0].notes = EventNotes{.source = BRINK_SOURCE_STEP, .direction = BRINK_DIR_FUTURE, .contiguous = true};
  auto writer = Writer::Create(*std::move(sink), options);
  ASSERT_THAT(writer, IsOk());
  RecordBatch batch(**writer);
  const RecordEncoder& encoder = (*writer)->encoder();
  const uint32_t pid = program.pid;
  const std::string build_id = BuildIdOf(program.path);
  SampleId id{.pid = pid, .tid = pid, .time = 1000, .id = (*writer)->id()};
  auto add = [&](auto encode) { EXPECT_THAT(batch.Add(encode), IsOk()); };
  add([&](auto out) { return encoder.Comm(out, pid, pid, "collatz", true, id); });
  for (const TracedMapping& m : program.mappings) {
    add([&](auto out) {
      return encoder.Mmap2(out, {.pid = pid, .tid = pid, .start = m.start, .length = m.length, .pgoff = m.pgoff, .build_id = build_id,
                                 .prot = 5, .flags = 2, .filename = program.path}, id);
    });
  }
  uint64_t time = 2000;
  for (size_t at = 0; at + depth <= program.branches.size(); at += depth) {
    std::vector<brink_branch> stack(program.branches.begin() + static_cast<std::ptrdiff_t>(at), program.branches.begin() + static_cast<std::ptrdiff_t>(at + depth));
    std::reverse(stack.begin(), stack.end());
    add([&](auto out) {
      return encoder.Sample(out, {.ip = stack.back().from, .pid = pid, .tid = pid, .time = ++time, .id = (*writer)->id(), .period = 1, .branches = stack});
    });
  }
  EXPECT_THAT(batch.Flush(), IsOk());
  EXPECT_THAT((*writer)->Finish({{.build_id = build_id, .filename = program.path}}), IsOk());
}

struct Case {
  const char* name;
  const char* flags;
  size_t depth;
};

// Tracing takes a second, so it is done once for each kind of binary.
struct Traced {
  TempDir dir;
  bool compiled = false;
  std::optional<TracedProgram> program;
};
Traced& TraceOf(const std::string& flags) {
  static std::map<std::string, std::unique_ptr<Traced>> cache;
  std::unique_ptr<Traced>& traced = cache[flags];
  if (!traced) {
    traced = std::make_unique<Traced>();
    const std::string binary = traced->dir.File("collatz");
    traced->compiled = CompileProgram(kSource, flags + " -nostdlib -ffreestanding -fno-stack-protector -Wl,--build-id=sha1 -Wl,-q", binary);
    if (traced->compiled) traced->program = TraceProgram(binary, 200'000);
  }
  return *traced;
}

class Optimisers : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (Execute({"perf", "--version"}).status != 0) GTEST_SKIP() << "needs perf (package linux-perf)";
    Traced& traced = TraceOf(GetParam().flags);
    if (!traced.compiled) GTEST_SKIP() << "needs a C compiler";
    if (!traced.program) GTEST_SKIP() << "needs objdump and ptrace";
    program_ = &*traced.program;
    ASSERT_GT(program_->branches.size(), 4096u);
    data_ = dir_.File("brink.data");
    WriteTrace(data_, *program_, GetParam().depth);
  }
  TempDir dir_;
  const TracedProgram* program_ = nullptr;
  std::string data_;
};

// Number in front of or behind a phrase of a report; -1 where it is not.
long NumberIn(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stol(match[1]) : -1;
}

TEST_P(Optimisers, Perf2BoltTakesEveryBranch) {
  if (access(kPerf2Bolt, X_OK) != 0) GTEST_SKIP() << "needs perf2bolt (package bolt-19)";
  const std::string fdata = dir_.File("out.fdata");
  ProcessResult run = Execute({kPerf2Bolt, "-p", data_, "-o", fdata, program_->path});
  const std::string text = run.out + run.err;
  EXPECT_EQ(run.status, 0) << text;
  EXPECT_GT(NumberIn(text, "wrote ([0-9]+) objects"), 0) << text;
  EXPECT_EQ(NumberIn(text, "out of range traces involving unknown regions: ([0-9]+)"), 0) << text;
  EXPECT_EQ(NumberIn(text, "traces mismatching disassembled function contents: ([0-9]+)"), 0) << text;
  const size_t stacks = program_->branches.size() / GetParam().depth;
  EXPECT_EQ(NumberIn(text, "read ([0-9]+) samples and"), static_cast<long>(stacks)) << text;
  EXPECT_EQ(NumberIn(text, "and ([0-9]+) LBR entries"), static_cast<long>(stacks * GetParam().depth)) << text;
  // Each branch was in one stack: entries into functions are as many as there were.
  std::map<std::string, uint64_t> expected, profile;
  for (const auto& [name, address] : FunctionsOf(program_->path)) {
    for (size_t i = 0; i < stacks * GetParam().depth; ++i) expected[name] += program_->branches[i].to == address + program_->bias;
    if (expected[name] == 0) expected.erase(name);
  }
  // "1 walk 12 1 step 0 MISPREDICTED COUNT"
  std::ifstream lines(fdata);
  std::string from_kind, from, from_offset, to_kind, to, to_offset;
  uint64_t mispredicted, count;
  while (lines >> from_kind >> from >> from_offset >> to_kind >> to >> to_offset >> mispredicted >> count) {
    if (to_kind == "1" && to_offset == "0") profile[to] += count;
  }
  EXPECT_EQ(profile, expected) << text;
  EXPECT_GE(profile.size(), 3u);
}

TEST_P(Optimisers, ProfgenTakesTheRecording) {
  if (access(kProfgen, X_OK) != 0) GTEST_SKIP() << "needs llvm-profgen-19 (package llvm-19)";
  const std::string profile = dir_.File("out.prof");
  ProcessResult run = Execute({kProfgen, "--perfdata=" + data_, "--binary=" + program_->path, "--output=" + profile, "--format=text"});
  EXPECT_EQ(run.status, 0) << run.err;
  // It may find the sample small, and bytes in the binary that are no code. Anything else would be about the recording.
  std::istringstream messages(run.err);
  std::string line;
  while (std::getline(messages, line)) {
    EXPECT_THAT(line, testing::AnyOf("", HasSubstr("Sample PGO is estimated"), HasSubstr("invalid instructions")));
  }
  auto text = ReadFile(profile);
  ASSERT_THAT(text, IsOk());
  for (const char* function : {"walk:", "step:", "odd:"}) EXPECT_THAT(*text, HasSubstr(function));
}

INSTANTIATE_TEST_SUITE_P(Binaries, Optimisers,
                         testing::Values(Case{"NoPie", "-O1 -g -static -no-pie", 32}, Case{"Pie", "-O1 -g -fPIE -static-pie", 32},
                                         Case{"PieDeep", "-O1 -g -fPIE -static-pie", 2048}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace brink::perfdata
