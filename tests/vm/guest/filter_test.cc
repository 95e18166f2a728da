// Filters pushed into branch hardware: what the plugin's LBR_SELECT keeps out, judged by a single-stepped run and by the
// code at each branch, against the plan of src/filter.
#include <Zydis/Zydis.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/check.h"
#include "filter/hardware.h"
#include "filter/parser.h"
#include "filter/plan.h"
#include "filter/sample_filter.h"
#include "harness.h"
#include "recording.h"
#include "stepped.h"
#include "workload.h"

namespace brink::guest {
namespace {

constexpr size_t kDepth = 64;  // of the lane's hardware

// The kind of the branch instruction at `address`, from its bytes; nothing where they cannot be read.
std::optional<Kind> KindOfCode(const CodeReader& code, uint64_t address) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  std::vector<uint8_t> bytes = code.Read(address);
  ZydisDecodedInstruction decoded;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, bytes.data(), bytes.size(), &decoded))) return std::nullopt;
  const bool direct = decoded.raw.imm[0].size != 0;
  switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_COND_BR: return Kind::kCond;
    case ZYDIS_CATEGORY_UNCOND_BR: return direct ? Kind::kJump : Kind::kIndJump;
    case ZYDIS_CATEGORY_CALL: return direct ? Kind::kCall : Kind::kIndCall;
    case ZYDIS_CATEGORY_SYSCALL: return Kind::kSyscall;
    case ZYDIS_CATEGORY_SYSRET: return Kind::kSysret;
    case ZYDIS_CATEGORY_RET: return decoded.mnemonic == ZYDIS_MNEMONIC_RET ? Kind::kRet : Kind::kEret;
    default: return std::nullopt;  // an interrupted instruction
  }
}

filter::Plan PlanOf(const std::string& text) {
  auto expr = filter::Parse(text);
  BRINK_CHECK(expr.ok());
  auto plan = filter::MakePlan(*expr);
  BRINK_CHECK(plan.ok());
  return *plan;
}

std::vector<BranchEntry> Entries(const Stack& stack) {
  std::vector<BranchEntry> entries;
  for (const guest_branch& branch : stack) entries.push_back({branch.from, branch.to, branch.info});
  return entries;
}

// Newest first, as the software filter leaves them.
std::vector<BranchEntry> KeptBySoftware(const filter::Plan& plan, std::vector<BranchEntry> entries) {
  filter::SampleFilter software(plan.expr);
  entries.resize(software.FilterRecords({}, entries));
  return entries;
}

struct Cell {
  const char* words;
  std::vector<Kind> kinds;
};
const Cell kCells[] = {{"cond", {Kind::kCond}},
                       {"jump", {Kind::kJump}},
                       {"ind_jump", {Kind::kIndJump}},
                       {"call", {Kind::kCall}},
                       {"ind_call", {Kind::kIndCall}},
                       {"ret", {Kind::kRet}},
                       {"call, ind_call, ret", {Kind::kCall, Kind::kIndCall, Kind::kRet}},
                       {"cond, ind_jump", {Kind::kCond, Kind::kIndJump}}};

class HardwareFilter : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBranchHardware("plugin")) GTEST_SKIP() << "needs a guest with the plugin's branch records";
    PinTo(0);
  }
};

// Kinds x include/exclude, user branches: the stack of the filtered hardware is the filtered truth, and where the filter
// keeps less than everything it reaches further back than the unfiltered one.
TEST_F(HardwareFilter, KeepsTheFilteredTruthAndReachesFurtherBack) {
  CodeReader code;
  const unsigned seed = 3;
  char* memory = FreshMemory();
  std::vector<Edge> truth = Stepped(seed, memory);
  // The two runs are called from different places.
  truth.erase(truth.begin(), std::find_if(truth.begin(), truth.end(), [](const Edge& e) { return e.to == reinterpret_cast<uint64_t>(&Workload); }) + 1);
  const filter::Plan everything = PlanOf("kind in any and priv == user");
  const std::vector<BranchEntry> unfiltered = Entries(Recorded(seed, memory, everything.branch_bits));
  std::printf("| filter | LBR_SELECT | records | newest of the run's | further back |\n");
  for (const Cell& cell : kCells) {
    for (bool exclude : {false, true}) {
      const std::string text = std::string(exclude ? "exclude " : "include ") + cell.words + " and priv == user";
      SCOPED_TRACE(text);
      filter::Plan plan = PlanOf(text);
      std::vector<Edge> wanted;
      for (const Edge& edge : truth) {
        std::optional<Kind> kind = KindOfCode(code, edge.from);
        ASSERT_TRUE(kind.has_value()) << std::hex << edge.from;
        if ((std::count(cell.kinds.begin(), cell.kinds.end(), *kind) > 0) != exclude) wanted.push_back(edge);
      }
      uint64_t select = 0;
      const Stack stack = Recorded(seed, memory, plan.branch_bits, &select);
      EXPECT_EQ(select, filter::IntelLbrSelect(plan.branch_bits));  // what `explain` prints is what the hardware ran with
      const std::vector<BranchEntry> kept = KeptBySoftware(plan, Entries(stack));
      std::vector<Edge> got;
      for (auto entry = kept.rbegin(); entry != kept.rend(); ++entry)
        if (!InKernel(entry->from)) got.push_back({entry->from, entry->to});
      // As many as the run had, or a full buffer: none was spent on what is not wanted.
      if (plan.kinds_exact) {
        EXPECT_GE(stack.size(), std::min(kDepth, wanted.size()));
      }
      // A stack of a rare kind begins before the run.
      const auto overlap = static_cast<ptrdiff_t>(std::min(got.size(), wanted.size()));
      ASSERT_GT(overlap, 0);
      EXPECT_EQ(std::vector<Edge>(got.end() - overlap, got.end()), std::vector<Edge>(wanted.end() - overlap, wanted.end()));
      // The plan that filters in software only agrees over the span that both cover.
      const std::vector<BranchEntry> pure = KeptBySoftware(plan, unfiltered);
      const size_t both = std::min(pure.size(), kept.size());
      for (size_t i = 0; i < both; ++i) {
        EXPECT_EQ(pure[i].from, kept[i].from);
        EXPECT_EQ(pure[i].to, kept[i].to);
        EXPECT_EQ(pure[i].kind(), kept[i].kind());
      }
      if (plan.kinds_exact) {
        EXPECT_GT(kept.size(), pure.size());
      }
      std::printf("| %s | 0x%03llx | %zu | %zu | %zu |\n", text.c_str(), static_cast<unsigned long long>(select), kept.size(), wanted.size(), kept.size() - both);
    }
  }
  munmap(memory, kWorkloadPages * 4096);
}

// Privilege x kinds with kernel code: no truth to step through, but the code at each branch says what it is.
TEST_F(HardwareFilter, RecordsAreOfTheKindAndPrivilegeAskedFor) {
  CodeReader code;
  for (const char* text : {"priv == kernel", "priv == user", "kind in {call, ind_call} and priv == kernel", "kind == cond and priv == kernel",
                           "kind == ind_jump", "kind in any_ret and priv == user", "kind in any_call and priv == kernel"}) {
    SCOPED_TRACE(text);
    filter::Plan plan = PlanOf(text);
    EventOptions options;
    options.branch_type = plan.branch_bits | PERF_SAMPLE_BRANCH_TYPE_SAVE;
    options.period = 150'001;
    options.cpu = 0;
    Sampler sampler(options);
    std::atomic<bool> stop = false;
    std::thread churn(Churn, std::cref(stop));
    sampler.Start();
    EXPECT_EQ(DeviceCounter("select"), filter::IntelLbrSelect(plan.branch_bits));
    usleep(600'000);
    sampler.Stop();
    stop = true;
    churn.join();
    size_t records = 0, judged = 0, full = 0, samples = 0;
    for (const Sample& sample : sampler.Read()) {
      if (sample.tgid != static_cast<uint32_t>(getpid())) continue;
      ++samples;
      full += sample.stack.size() >= kDepth * 3 / 4;
      // The hardware alone, before any software: the kept list is the list.
      const std::vector<BranchEntry> entries = Entries(sample.stack);
      EXPECT_EQ(KeptBySoftware(plan, entries).size(), entries.size());
      for (const BranchEntry& entry : entries) {
        ++records;
        if (filter::ReadsField(plan.expr, filter::Field::kToPriv)) {
          EXPECT_EQ(InKernel(entry.to), std::string_view(text).ends_with("kernel"));
        }
        std::optional<Kind> kind = KindOfCode(code, entry.from);
        if (!kind || entry.kind() == Kind::kIrq || entry.kind() == Kind::kEret) continue;
        ++judged;
        EXPECT_EQ(entry.kind(), *kind) << std::hex << entry.from;
      }
    }
    std::printf("%s: %zu samples, %zu records, %zu judged by their code, %zu samples at least three quarters full\n", text, samples, records, judged, full);
    EXPECT_GT(samples, 10u);
    EXPECT_GT(judged, records / 2);
    EXPECT_GT(full, samples / 2);  // no entries spent on what is not wanted
  }
}

// The whole way: `brink record --where` asks the hardware for what the plan says.
TEST_F(HardwareFilter, RecordPushesTheExpressionDown) {
  const char kFile[] = "/tmp/guest-filter.data";
  CodeReader code;
  const std::string text = "kind in {call, ind_call} and priv == user";
  std::atomic<bool> stop = false;
  std::thread churn(Churn, std::cref(stop));
  std::string said;
  int status = RunBrinkHere({"record", "--source", "lbr", "-e", "cycles", "-c", "200003", "--where", text, "-o", kFile, "-p", std::to_string(getpid()),
                             "--duration", "2s"}, said);
  stop = true;
  churn.join();
  ASSERT_EQ(status, 0) << said;
  Recording recording = ReadRecording(kFile);
  ASSERT_GT(recording.samples.size(), 30u) << said;
  EXPECT_EQ(recording.branch_type & (PlanOf(text).branch_bits), PlanOf(text).branch_bits);
  size_t full = 0, calls = 0, unreadable = 0;
  for (const Sample& sample : recording.samples) {
    full += sample.stack.size() >= kDepth * 3 / 4;
    for (const guest_branch& branch : sample.stack) {
      EXPECT_FALSE(InKernel(branch.to));
      std::optional<Kind> kind = KindOfCode(code, branch.from);
      unreadable += !kind;  // of the process that had the CPU before
      calls += kind == Kind::kCall || kind == Kind::kIndCall;
      EXPECT_TRUE(!kind || kind == Kind::kCall || kind == Kind::kIndCall) << std::hex << branch.from;
    }
  }
  std::printf("%zu samples, %zu of them at least three quarters full; %zu calls, %zu of other processes\n", recording.samples.size(), full, calls, unreadable);
  EXPECT_GT(full, recording.samples.size() / 2);
  EXPECT_GT(calls, 4 * unreadable);
}

}  // namespace
}  // namespace brink::guest
