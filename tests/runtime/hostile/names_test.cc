// Names with everything that a terminal, a page, a spreadsheet or a parser might obey, in every place where a recording has names.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "limits.h"
#include "made_recording.h"

namespace brink::hostile {
namespace {

using exporter::kBias;
using exporter::MadeRecording;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNames[] = {"\x1b[31mred\x1b[0m\x1b]0;title\x07", "=cmd|' /C calc'!A0", "</script><script>alert(1)</script>",
                                  "one\ntwo\r", "\xe2\x80\xae" "gpj.exe", "\xc2\x9b" "31m", "+1+1", "@sum", "-2+3", "\"quoted\\\"", "\xff\xfe broken", "tab\tname"};

// A program whose functions have these names, recorded in a thread and a group that have them too.
class Names : public testing::Test {
 protected:
  Names() {
    exporter::ProgramOptions options;
    options.symbols.clear();
    uint64_t at = 0x1100;
    for (const char* name : kNames) options.symbols.push_back({name, at, 0x20}), at += 0x20;
    exporter::WriteProgram(program_, options);
    perfdata::WriterOptions writing = MadeRecording::WithChains(false);
    writing.events[0].attr.sample_type |= perfdata::kSampleCgroup;
    writing.events[0].name = kNames[0];
    writing.features.hostname = kNames[0];
    writing.features.cmdline = {kNames[0], kNames[2], kNames[3]};
    writing.features.os_release = kNames[3];
    writing.features.cpu_desc = kNames[0];
    MadeRecording recording(data_, std::move(writing));
    uint32_t pid = 100;
    uint64_t group = 1;
    for (const char* name : kNames) {
      recording.Name(++pid, name);
      recording.CgroupPath(++group, std::string("/system.slice/") + name);
      recording.Map(pid, kBias + 0x1000, 0x1000, 0, program_, exporter::kBuildId);
      recording.Map(pid, 0x7f0000000000, 0x1000, 0, std::string("/tmp/") + name, "");
      for (uint64_t from = 0x1110; from < at; from += 0x20) {
        recording.Sample(pid, {{kBias + from, kBias + 0x1100, Kind::kJump, 0}, {0x7f0000000010, kBias + 0x1104, Kind::kIndCall, 1}, {kBias + 0x1170, 0x7f0000000000, Kind::kRet, 1}},
                         {.ip = kBias + from, .chain = {0xfffffffffffffe00, kBias + from, kBias + 0x1108}, .cgroup = group});
      }
    }
  }

  testing_support::TempDir dir_;
  std::string program_ = dir_.File("\x1b[32mgreen\nprogram"), data_ = dir_.File("names.data");
};

TEST_F(Names, DoNotReachATerminal) {
  const std::vector<std::vector<std::string>> commands = {
      {"report"}, {"report", "-t", "branches,edges,functions,lines,calls,ranges,blocks,loops,mispredict,paths,stops", "-n", "0", "--fields", "all"}, {"report", "--quality"},
      {"report", "--mispredict"}, {"report", "-t", "functions", "--where", "cgroup ~ 'no such'"}, {"annotate", "-n", "100", "--all", "red"}, {"annotate", "no such function"},
      {"script"}, {"script", "-F", "comm,pid,tid,cpu,time,event,ip,sym,brstacksym"}, {"script", "--dump-header"}, {"script", "--dump-header", "--json"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.begin() + 1, {"-i", data_});
    Harmless(words);
  }
  EXPECT_THAT(Harmless({"report", "-i", data_, "-t", "functions", "-n", "0"}).out, HasSubstr("\\x1b[31mred\\x1b[0m"));
}

TEST_F(Names, StayJsonOnJsonLines) {
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{"report", "-t", "branches,functions,lines", "--json"}, {"script", "--json"}, {"annotate", "--json", "red"}, {"export", "-f", "json"}}) {
    words.insert(words.begin() + 1, {"-i", data_});
    auto run = Harmless(words);
    size_t lines = 0;
    for (std::string_view line : Split(run.out, '\n')) {
      if (line.empty()) continue;
      ++lines;
      EXPECT_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded()) << line;
    }
    EXPECT_GT(lines, 0u) << words[0] << run.err;
  }
  for (const char* format : {"perfetto", "speedscope", "firefox"}) {
    auto run = Harmless({"export", "-i", data_, "-f", format});
    EXPECT_FALSE(nlohmann::json::parse(run.out, nullptr, false).is_discarded()) << format;
  }
}

// Cells of a quoted table; quotes are doubled.
std::vector<std::string> Cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    else if (line[i] == ',' && !quoted) cells.emplace_back();
    else cells.back() += line[i];
  }
  return cells;
}

TEST_F(Names, AreNoFormulas) {
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{"report", "-t", "functions", "--csv"}, {"report", "-t", "branches", "--csv"}, {"export", "-f", "csv"}}) {
    words.insert(words.begin() + 1, {"-i", data_});
    auto run = Harmless(words);
    EXPECT_THAT(run.out, HasSubstr("'=cmd|"));
    for (std::string_view line : Split(run.out, '\n')) {
      for (const std::string& cell : Cells(line)) {
        const bool number = cell.find_first_not_of("0123456789.-+e") == std::string::npos;
        EXPECT_TRUE(number || std::string_view("=+-@").find(cell[0]) == std::string_view::npos) << cell;
      }
    }
  }
}

TEST_F(Names, StayDataOnThePage) {
  Harmless({"report", "-i", data_, "--html", dir_.File("page.html")});
  auto page = ReadFile(dir_.File("page.html"));
  ASSERT_THAT(page, testing_support::IsOk());
  EXPECT_THAT(*page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(*page, HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_EQ(Unsafe(*page), "");
}

TEST_F(Names, GoThroughEveryExport) {
  for (const char* format : {"folded", "bolt", "profgen", "profgen-unsymbolized", "autofdo"}) Harmless({"export", "-i", data_, "-f", format});
  Harmless({"export", "-i", data_, "-f", "pprof", "-o", dir_.File("out.pb.gz")});
  Harmless({"export", "-i", data_, "-f", "perfdata", "-o", dir_.File("again.data")});
  Harmless({"merge", "-o", dir_.File("sum.agg"), data_, data_});
  Harmless({"report", "-i", dir_.File("sum.agg")});
  Harmless({"diff", data_, dir_.File("again.data")});
}

}  // namespace
}  // namespace brink::hostile
