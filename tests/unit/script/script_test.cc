#include "script/json_text.h"
#include "script/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "perfdata/writer.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::script {
namespace {

using perfdata::Reader;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::SharedData;
using testing_support::StatusIs;

// One sample of each of three threads, with a name, a mapping, a chain and two branches.
std::string Recording(bool with_chain = false, bool with_notes = false) {
  perfdata::EventAttr attr = perfdata::CpuClockAttr();
  if (with_chain) attr.sample_type |= perfdata::kSampleCallchain;
  if (with_notes) attr.sample_type |= perfdata::kSampleRaw;
  perfdata::WriterOptions options = perfdata::OneEvent(attr);
  if (with_notes) {
    options.events[0].notes =
        perfdata::EventNotes{.source = BRINK_SOURCE_WALK, .direction = BRINK_DIR_FUTURE, .contiguous = true, .sample_notes = true};
  }
  perfdata::MemoryFile file;
  auto writer = *perfdata::Writer::Create(std::make_unique<perfdata::MemorySink>(&file), options);
  const perfdata::RecordEncoder& encoder = writer->encoder();
  perfdata::RecordBatch batch(*writer);
  perfdata::SampleId id{.pid = 10, .tid = 10, .time = 1, .id = 1};
  auto add = [&](auto encode) { EXPECT_THAT(batch.Add(encode), IsOk()); };
  add([&](auto out) { return encoder.Comm(out, 10, 10, "demo", true, id); });
  add([&](auto out) { return encoder.Mmap2(out, {.pid = 10, .tid = 10, .start = 0x400000, .length = 0x10000, .pgoff = 0x2000, .prot = 5, .filename = "/bin/demo"}, id); });
  add([&](auto out) { return encoder.Fork(out, {.pid = 10, .ppid = 10, .tid = 11, .ptid = 10, .time = 2}, id); });
  std::vector<uint64_t> chain = {perfdata::kContextKernel, 0xffffffff81000000, perfdata::kContextUser, 0x400100, 0x700000};
  std::vector<brink_branch> branches = {{0x400010, 0x400100, MakeInfo(Kind::kCall, Priv::kUser) | 2 | 17 << 4}, {0x400200, 0x400008, MakeInfo(Kind::kRet) | 1}};
  perfdata::SampleNote note;
  note.stop = BRINK_STOP_SYSCALL;
  for (uint32_t tid : {10u, 11u, 12u}) {
    add([&](auto out) {
      return encoder.Sample(out, {.ip = 0x400000 + tid, .pid = 10, .tid = tid, .time = 1'000'000'000ull * tid + 7'000, .id = 1, .cpu = tid - 10, .period = tid,
                                  .chain = chain, .raw = std::as_bytes(std::span(&note, 1)), .branches = branches});
    });
  }
  EXPECT_THAT(batch.Flush(), IsOk());
  EXPECT_THAT(writer->Finish({}), IsOk());
  return file.bytes;
}

StatusOr<std::string> TextOf(std::string recording, const Options& options, Symbols* symbols = nullptr) {
  ASSIGN_OR_RETURN(auto reader, Reader::Open(perfdata::MemoryInput(std::move(recording))));
  UniqueFd fd(memfd_create("text", MFD_CLOEXEC));
  TextBuffer out(fd.get(), 512);  // small, so that its edges are met
  RETURN_IF_ERROR(WriteSamples(*reader, options, symbols, &out));
  std::string text(static_cast<size_t>(lseek(fd.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

Options Perf(std::string_view fields) {
  Options options;
  options.style = Style::kPerf;
  options.fields = *ParseFields(fields);
  return options;
}

TEST(PerfText, HasTheColumnsOfPerf) {
  auto text = TextOf(Recording(), Perf("comm,pid,tid,cpu,time,period,event,ip"));
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(Split(*text, '\n'), ElementsAre("            demo    10/10    [000]    10.000007:         10 cpu-clock:u:            40000a",
                                              "            demo    10/11    [001]    11.000007:         11 cpu-clock:u:            40000b",
                                              "             :12    10/12    [002]    12.000007:         12 cpu-clock:u:            40000c", ""));
}

TEST(PerfText, ShowsNanosecondsWhenAsked) {
  Options options = Perf("tid,time");
  options.nanoseconds = true;
  options.limit = 1;
  EXPECT_EQ(*TextOf(Recording(), options), "   10    10.000007000: \n");
}

TEST(PerfText, PutsTheChainOnLinesOfFileOffsets) {
  Options options = Perf("comm,ip,brstack");
  options.limit = 1;
  EXPECT_EQ(*TextOf(Recording(true), options),
            "demo \n"
            "\tffffffff81000000\n"
            "\t            2100\n"   // 0x400100 is 0x100 into a mapping of the file from 0x2000 on
            "\t          700000\n"   // nothing is mapped there
            " 0x400010/0x400100/P/-/-/17/CALL  0x400200/0x400008/M/-/-/0/RET \n");
}

TEST(PerfText, HasTheNewerFormOnRequest) {
  EXPECT_EQ(BranchFlagsText(2 | 7 << 4 | 5 << 20 | 2 << 24, BrstackStyle::kPerf61), "/P/-/-/7/IND_CALL ");
  EXPECT_EQ(BranchFlagsText(2 | 7 << 4 | 5 << 20 | 2 << 24, BrstackStyle::kNew), "/P/-/-/7/IND_CALL/NON_SPEC_CORRECT_PATH ");
  EXPECT_EQ(BranchFlagsText(1 | 1ull << 33 | 7 << 4 | 1 << 20, BrstackStyle::kNew), "/MN/-/-/7/COND/- ");
  EXPECT_EQ(BranchFlagsText(2 | 1ull << 33 | 1 << 20, BrstackStyle::kNew), "/PN/-/-/0/COND/- ");
  EXPECT_EQ(BranchFlagsText(4 | 8 | 65535 << 4 | 15u << 20 | 2u << 26, BrstackStyle::kPerf61), "/-/X/A/65535/FAULT_INST ");
}

// The lines that others quoted from newer perfs: our text for the same flags is in them.
TEST(PerfText, NewerFormEqualsWhatNewerPerfsPrinted) {
  auto path = SharedData("text/arm-spe-brstack.txt");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  std::string text = *ReadFile(*path) + *ReadFile(*SharedData("text/amd-brstacksym.txt"));
  for (const auto& [info, word] : std::vector<std::pair<uint64_t, const char*>>{
           {2 | 7 << 4 | 1 << 20, "/P/-/-/7/COND/-"}, {1 | 1ull << 33 | 7 << 4 | 1 << 20, "/MN/-/-/7/COND/-"}, {2 | 1ull << 33 | 11 << 4 | 1 << 20, "/PN/-/-/11/COND/-"},
           {2 | 5 << 4, "/P/-/-/5//-"}, {1 | 13 << 4 | 6 << 20, "/M/-/-/13/RET/-"}, {2 | 5 << 20 | 2 << 24, "/P/-/-/0/IND_CALL/NON_SPEC_CORRECT_PATH"}}) {
    EXPECT_THAT(text, HasSubstr(word));
    EXPECT_EQ(BranchFlagsText(info, BrstackStyle::kNew), std::string(word) + " ");
  }
}

class FakeSymbols : public Symbols {
 public:
  void Observe(const perfdata::Record&) override { ++observed; }
  const Name& Find(const perfdata::Sample&, uint64_t address) override {
    name_ = address < 0x400100 ? Name{"main", address - 0x400000, "demo.c:3"} : Name{};
    return name_;
  }
  int observed = 0;

 private:
  Name name_;
};

TEST(PerfText, NamesAddressesThroughTheSymboliser) {
  FakeSymbols symbols;
  Options options = Perf("ip,sym,brstacksym");
  options.limit = 1;
  EXPECT_EQ(*TextOf(Recording(), options, &symbols), "           40000a mainmain+0x10/[unknown]/P/-/-/17/CALL [unknown]/main+0x8/M/-/-/0/RET \n");
  EXPECT_EQ(symbols.observed, 3);
}

TEST(PerfText, RefusesFieldsThatAreNotThere) {
  EXPECT_THAT(TextOf(Recording(), Perf("ip,addr")), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'addr'")));
  EXPECT_THAT(TextOf(Recording(), Perf("brstacksym")), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("symbols")));
  EXPECT_THAT(ParseFields("ip,brstak"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'brstak'; there are: comm pid")));
}

TEST(Filters, KeepWholeSamples) {
  auto tids = [](auto change) {
    Options options = Perf("tid");
    change(options);
    return *TextOf(Recording(), options);
  };
  EXPECT_EQ(tids([](Options& o) { o.cpus = {1, 2}; }), "   11 \n   12 \n");
  EXPECT_EQ(tids([](Options& o) { o.tids = {12}; }), "   12 \n");
  EXPECT_EQ(tids([](Options& o) { o.pids = {11}; }), "");
  EXPECT_EQ(tids([](Options& o) { EXPECT_THAT(ParseTimeRange("10.000007001,11.5", &o), IsOk()); }), "   11 \n");
  EXPECT_EQ(tids([](Options& o) { EXPECT_THAT(ParseTimeRange(",10.1", &o), IsOk()); }), "   10 \n");
}

TEST(Filters, TimeRangesAreChecked) {
  Options options;
  for (const char* text : {"", ",", "x", "1.", "1.0123456789", "5,4", "99999999999999999999"}) {
    EXPECT_THAT(ParseTimeRange(text, &options), StatusIs(absl::StatusCode::kInvalidArgument, testing::_)) << text;
  }
  options = {};
  EXPECT_THAT(ParseTimeRange("1.05", &options), IsOk());
  EXPECT_EQ(options.time_from, 1'050'000'000u);
  EXPECT_EQ(options.time_to, UINT64_MAX);
}

TEST(Readable, SaysWhatIsKnownAndNothingElse) {
  Options options;
  options.limit = 1;
  FakeSymbols symbols;
  EXPECT_EQ(*TextOf(Recording(false, true), options, &symbols),
            "demo 10/10 cpu 0 10.000007000 s cpu-clock:u at 0x40000a main+0xa (demo.c:3), walk future, 2 branches, ended by syscall\n"
            "    0x400010 main+0x10 (demo.c:3) -> 0x400100  call  predicted  17 cycles  to user\n"
            "    0x400200 -> 0x400008 main+0x8 (demo.c:3)  ret  MISPREDICTED\n");
}

TEST(Json, HasOneObjectASampleWithNullForTheUnknown) {
  Options options;
  options.style = Style::kJson;
  std::string text = *TextOf(Recording(true, true), options);
  auto lines = Split(text, '\n');
  ASSERT_EQ(lines.size(), 4u);
  auto json = nlohmann::json::parse(std::string(lines[0]));
  EXPECT_EQ(json["schema"], "brink.sample.v1");
  EXPECT_THAT(json["time"].get<std::string>(), HasSubstr("Z"));
  EXPECT_EQ(json["monotonic_ns"], 10'000'007'000u);
  EXPECT_EQ(json["comm"], "demo");
  EXPECT_EQ(json["ip"], "0x40000a");
  EXPECT_EQ(json["cgroup_id"], nullptr);
  EXPECT_EQ(json["source"], "walk");
  EXPECT_EQ(json["stop"], "syscall");
  EXPECT_EQ(json["contiguous"], true);
  EXPECT_EQ(json["chain"], nlohmann::json({"0xffffffff81000000", "0x400100", "0x700000"}));
  EXPECT_EQ(json["branches"][0], nlohmann::json({{"from", "0x400010"}, {"to", "0x400100"}, {"kind", "call"}, {"mispredicted", false}, {"cycles", 17}, {"priv", "user"}}));
  EXPECT_EQ(json["branches"][1]["cycles"], nullptr);
  EXPECT_EQ(json["branches"][1]["mispredicted"], true);
}

TEST(Json, StaysJsonWhateverAThreadCallsItself) {
  UniqueFd fd(memfd_create("text", MFD_CLOEXEC));
  TextBuffer out(fd.get());
  PutJsonString("a\"\\\x01\xff\xc3\xa9\xed\xa0\x80\x7f\xc2\x9b\xe2\x80\xae", &out);
  EXPECT_THAT(out.Flush(), IsOk());
  char text[128] = "";
  EXPECT_GT(pread(fd.get(), text, sizeof text, 0), 0);
  EXPECT_STREQ(text, "\"a\\\"\\\\\\u0001\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\\u007f\\u009b\\u202e\"");
}

TEST(HeaderFacts, AreTextOrOneObject) {
  auto reader = Reader::Open(perfdata::MemoryInput(Recording(false, true)));
  ASSERT_THAT(reader, IsOk());
  std::string text = HeaderFacts(**reader, false);
  EXPECT_THAT(text, HasSubstr("event: name cpu-clock:u, type 1, config 0x0, attr_size 128, period 1000000, sample_type ip tid time cpu period raw branch_stack identifier"));
  EXPECT_THAT(text, HasSubstr("source walk, direction future, contiguous true"));
  auto json = nlohmann::json::parse(HeaderFacts(**reader, true));
  EXPECT_EQ(json["schema"], "brink.recording.v1");
  EXPECT_EQ(json["sample_time_ns"], nlohmann::json({10'000'007'000, 12'000'007'000}));
  EXPECT_EQ(json["file"]["finished"], true);
}

TEST(Hex, EqualsPrintfForEveryLength) {
  char text[32];
  for (int bit = 0; bit < 64; ++bit) {
    for (uint64_t v : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, UINT64_MAX >> bit, 0x123456789abcdef0u >> bit, 0xfedcba9876543210u << bit}) {
      EXPECT_EQ(std::string(text, PutHex(text, v)), absl::StrFormat("%x", v));
    }
  }
}

}  // namespace
}  // namespace brink::script
