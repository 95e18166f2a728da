// Walks against the CPU in programs of an unusual kind, by the host build and by the BPF program in both of its modes.
// 0 wrong wherever nobody else changes the memory that is walked on. BRINK_LONG=1 judges 400 stops a row.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel_walker.h"
#include "programs.h"
#include "support/features.h"
#include "support/process.h"
#include "walk_predictor.h"

namespace brink::fidelity {
namespace {

constexpr uint32_t kDepth = 32;

struct Row {
  std::string name;
  std::vector<std::string> argv;
  bool exact = true;    // nobody changes what is walked on: 0 wrong
};

Options Limits() {
  bool thorough = std::getenv("BRINK_LONG") != nullptr;
  return {.depth = kDepth, .windows = thorough ? 400u : 12u, .seconds = thorough ? 120.0 : 3.0};
}

class Special : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("source.walk"); }

  void Report(const char* how, const Row& row, const Tally& tally) {
    for (const Wrong& wrong : tally.wrongs) std::printf("WRONG %s %s: %s\n", how, row.name.c_str(), wrong.text.c_str());
    double judged = std::max(1u, tally.exact_full + tally.shortened);
    std::printf("%-5s %-14s %4u windows, %u wrong, %u disturbed, full %.0f%%, depth %.1f\n", how, row.name.c_str(), tally.windows, tally.wrong, tally.disturbed,
                100 * tally.exact_full / judged, static_cast<double>(tally.branches) / judged);
    std::fflush(stdout);
    if (row.exact) {
      EXPECT_EQ(tally.wrong, 0u) << how << " " << row.name;
    }
    EXPECT_GT(tally.windows, 0u) << how << " " << row.name;
  }

  void JudgeRow(const Row& row) {
    Program program{row.name, row.argv, row.exact, ""};
    Report("host", row, Judge(program, WalkPredictor(kDepth), Limits()));
    JudgeKernel(row);
  }

  void JudgeKernel(const Row& row) {
    Program program{row.name, row.argv, row.exact, ""};
    for (WalkMode mode : {WalkMode::kInterrupt, WalkMode::kTask}) {
      bool task = mode == WalkMode::kTask;
      if (task && !testing_support::HasFeature("source.walk_task")) continue;
      auto walker = KernelWalker::Create(mode, kDepth);
      ASSERT_TRUE(walker.ok()) << walker.status();
      Options options = Limits();
      options.on_tick = [&](int fd) { (*walker)->Attach(fd); };
      Tally tally = Judge(program, (*walker)->predictor(), options);
      Report(task ? "task" : "irq", row, tally);
      const KernelWalker::Counts& counts = (*walker)->counts();
      EXPECT_GT(counts.answered, 0u) << row.name;
      branches_ += tally.branches;
    }
  }

  testing_support::TempDir folder_;
  uint64_t branches_ = 0;  // that the kernel's walks recorded
};

TEST_F(Special, CodeThatIsMadeOrChangedAtRunTime) {
  for (const char* what : {"jit", "selfmodifying", "patched"}) JudgeRow({what, {BRINK_SPECIAL, what}});
}

TEST_F(Special, SegmentBasesThatTheKernelDoesNotKnow) { JudgeRow({"wrgsbase", {BRINK_SPECIAL, "wrgsbase"}}); }

TEST_F(Special, SignalsAndTheClockPages) {
  for (const char* what : {"signals", "clocks"}) JudgeRow({what, {BRINK_SPECIAL, what}});
}

TEST_F(Special, MappingsThatComeAndGo) { JudgeRow({"mappings", {BRINK_SPECIAL, "mappings"}}); }

// Other threads change what is branched on: how often that makes a record untrue is published, not asserted.
TEST_F(Special, SharedWords) { JudgeRow({"threads", {BRINK_SPECIAL, "threads"}, false}); }

TEST_F(Special, ProgramsWithUprobesInThem) {
  SKIP_UNLESS("bpf.uprobe");
  testing_support::ProcessResult where = testing_support::Run({BRINK_SPECIAL, "where"});
  std::istringstream places(where.out);
  std::ifstream type_file("/sys/bus/event_source/devices/uprobe/type");
  uint32_t type = 0;
  ASSERT_TRUE(type_file >> type);
  std::string path = BRINK_SPECIAL;
  std::vector<UniqueFd> probes;
  for (uint64_t at; places >> at;) {
    perf_event_attr attr{};
    attr.type = type;
    attr.size = sizeof attr;
    attr.config1 = reinterpret_cast<uint64_t>(path.c_str());
    attr.config2 = at;
    probes.emplace_back(static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
    ASSERT_TRUE(probes.back().valid()) << std::strerror(errno);
  }
  ASSERT_EQ(probes.size(), 2u) << where.out;
  // The kernel executes the probed instruction elsewhere: walks end there, and stepping over it is no straight line.
  JudgeRow({"probed", {BRINK_SPECIAL, "probed"}});
}

TEST_F(Special, BinariesOnOverlayAndMemoryFileSystems) {
  std::vector<std::pair<std::string, std::string>> places;
  std::string base = folder_.path();
  for (const char* name : {"memory", "lower", "over"}) std::filesystem::create_directory(base + "/" + name);
  ASSERT_EQ(::mount("none", (base + "/memory").c_str(), "tmpfs", 0, nullptr), 0) << std::strerror(errno);
  std::filesystem::create_directory(base + "/memory/upper");
  std::filesystem::create_directory(base + "/memory/work");
  std::filesystem::copy_file(BRINK_SPECIAL, base + "/memory/special");
  std::filesystem::copy_file(BRINK_SPECIAL, base + "/lower/special");
  places.emplace_back("tmpfs", base + "/memory/special");
  std::string options = "lowerdir=" + base + "/lower,upperdir=" + base + "/memory/upper,workdir=" + base + "/memory/work";
  bool overlay = ::mount("overlay", (base + "/over").c_str(), "overlay", 0, options.c_str()) == 0;
  if (overlay) places.emplace_back("overlay", base + "/over/special");
  else std::printf("no overlayfs here: %s\n", std::strerror(errno));
  for (const auto& [name, path] : places) JudgeRow({name, {path, "signals"}});
  if (overlay) ::umount((base + "/over").c_str());
  ::umount((base + "/memory").c_str());
}

TEST_F(Special, ForeignProgramsByTheKernelItself) {
  std::vector<std::string> missing;
  std::vector<Program> programs = MakePrograms(folder_.path(), BRINK_THROWING, &missing);
  for (const Program& program : programs) {
    for (const char* wanted : {"python3", "perl", "sort", "exceptions", "node", "cc1"}) {
      if (program.name == wanted && program.stdin_path.empty()) JudgeKernel({program.name, program.argv, program.single_threaded});
    }
  }
  EXPECT_GT(branches_, 0u);
}

}  // namespace
}  // namespace brink::fidelity
