// Filters of the real binary: pushed into BPF while recording, and in software on the reading side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::RunBrink;
using testing_support::TempDir;

std::string Stacks(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"script", "-i", file, "-F", "ip,brstack"};
  args.insert(args.end(), more.begin(), more.end());
  return RunBrink(args).out;
}

TEST(Filter, RecordedWithEqualsFilteredAfterwards) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto all = RunBrink({"record", "-a", "--replay-count", "512", "-o", dir.File("all.data")});
  ASSERT_EQ(all.status, 0) << all.err;
  for (const char* where : {"kind == call", "from < 0x404000 and kind == cond", "not kind == call", "mispredicted", "pid == 1"}) {
    auto filtered = RunBrink({"record", "-a", "--replay-count", "512", "--where", where, "-o", dir.File("f.data")});
    ASSERT_EQ(filtered.status, 0) << where << filtered.err;
    EXPECT_EQ(Stacks(dir.File("f.data")), Stacks(dir.File("all.data"), {"--where", where})) << where;
  }
  EXPECT_THAT(Stacks(dir.File("all.data"), {"--where", "kind == call"}), HasSubstr("0x401000"));
}

TEST(Filter, AFilteredRecordingSaysThatItHasGaps) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "--where", "kind == call", "-o", dir.File("f.data")}).status, 0);
  EXPECT_THAT(RunBrink({"script", "-i", dir.File("f.data"), "--dump-header"}).out, HasSubstr("contiguous false"));
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "--where", "cpu < 4096", "-o", dir.File("s.data")}).status, 0);
  EXPECT_THAT(RunBrink({"script", "-i", dir.File("s.data"), "--dump-header"}).out, HasSubstr("contiguous true"));
}

TEST(Filter, TheBrbeModelGivesTheSameLiveAndAfterwards) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  const std::string model = "numrec=16,brbfcr=0x200000,brbcr=0xC0013B";
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "-o", dir.File("all.data")}).status, 0);
  auto live = RunBrink({"record", "-a", "--replay-count", "512", "--brbe-model", model, "-o", dir.File("m.data")});
  ASSERT_EQ(live.status, 0) << live.err;
  EXPECT_EQ(Stacks(dir.File("m.data")), Stacks(dir.File("all.data"), {"--brbe-model", model}));
  auto json = RunBrink({"script", "-i", dir.File("m.data"), "-n", "1"});
  EXPECT_THAT(json.out, HasSubstr("to user"));
  EXPECT_THAT(json.out, Not(HasSubstr("cond")));
}

// The mount point of cgroup v2; empty where there is none.
std::string CgroupMount() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line, device, where, type; std::getline(mounts, line);) {
    std::istringstream(line) >> device >> where >> type;
    if (type == "cgroup2") return where;
  }
  return "";
}

// Live and afterwards: a container is chosen by id, short id or pattern, a group by its path.
TEST(Filter, ContainersAndCgroupsAreChosenByName) {
  SKIP_UNLESS("source.walk");
  // A name of this run's own: what a killed run left behind is nobody's obstacle.
  char number[9];
  std::snprintf(number, sizeof(number), "%08x", static_cast<unsigned>(getpid()));
  const std::string id = "5eed" + std::string(number) + std::string(52, 'b'), prefix = id.substr(0, 12);
  const std::string name = "/docker-" + id + ".scope", folder = CgroupMount() + name;
  if (::mkdir(folder.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup v2 to make a group in: " << folder << ": " << std::strerror(errno);
  rmdir(folder.c_str());
  TempDir dir;
  const std::string in_container = "mkdir " + folder + "; echo $$ > " + folder + "/cgroup.procs; i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
  auto record = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"record", "-a", "--all-cgroups", "--source", "walk", "-F", "1000", "--walk-share", "2", "-o", dir.File("c.data")};
    words.insert(words.end(), more.begin(), more.end());
    for (const char* word : {"--", "/bin/sh", "-c", in_container.c_str()}) words.push_back(word);
    auto result = RunBrink(words);
    rmdir(folder.c_str());
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  };
  auto pids = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"script", "-i", dir.File("c.data"), "-F", "pid"};
    words.insert(words.end(), more.begin(), more.end());
    std::map<std::string, int> count;
    std::istringstream lines(RunBrink(words).out);
    for (std::string word; lines >> word;) ++count[word];
    return count;
  };
  record({});
  const auto all = pids({});
  for (const std::string& where : {"container == " + id, "container == " + prefix, "container ~ '" + prefix + "*' and pod == ''", "cgroup == " + name}) {
    const auto chosen = pids({"--where", where});
    ASSERT_EQ(chosen.size(), 1u) << where;
    const auto& [pid, count] = *chosen.begin();
    EXPECT_GT(count, 20) << where;
    EXPECT_GT(count, all.at(pid) / 2) << where;  // the shell's first steps were outside
    EXPECT_THAT(RunBrink({"report", "-i", dir.File("c.data"), "--where", where}).out, HasSubstr("# " + std::to_string(count) + " samples")) << where;
  }
  EXPECT_TRUE(pids({"--where", "container == " + prefix.substr(0, 11)}).empty());  // a digit is missing
  for (const std::string& where : {"container == " + prefix, "cgroup ~ '/docker-" + prefix + "*'"}) {
    record({"--where", where});
    const auto chosen = pids({});
    ASSERT_EQ(chosen.size(), 1u) << where;
    EXPECT_GT(chosen.begin()->second, 20) << where;
  }
}

// Walked stacks of this machine as a BRBE would have recorded them: no more records than the buffer has, only what its
// filter lets in, half records where a side is prohibited, perf's type and privilege of each. Live and afterwards alike.
TEST(Filter, WalkedStacksGoThroughTheBrbeModel) {
  SKIP_UNLESS("source.walk");
  TempDir dir;
  const std::string busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
  ASSERT_EQ(RunBrink({"record", "--source", "walk", "-F", "2000", "--walk-share", "2", "-o", dir.File("w.data"), "--", "/bin/sh", "-c", busy}).status, 0);
  auto lines = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"script", "-i", dir.File("w.data"), "-F", "brstack"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<std::vector<std::string>> stacks;
    std::istringstream out(RunBrink(words).out);
    for (std::string line; std::getline(out, line);) {
      std::istringstream entries(line);
      stacks.emplace_back(std::istream_iterator<std::string>(entries), std::istream_iterator<std::string>());
    }
    return stacks;
  };
  const auto whole = lines({});
  size_t full = 0;
  for (const auto& stack : whole) full += stack.size() > 8;
  ASSERT_GT(full, 3u);  // the walker learns the code first
  struct Setting {
    const char* model;
    const char* same_as;  // an expression that keeps the same records
    size_t most;
  };
  for (const Setting& s : {Setting{"numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B", "kind is not unknown", 64}, Setting{"numrec=8,brbfcr=0x400000,brbcr=0xC0013B", "kind == cond", 8},
                           Setting{"numrec=64,brbfcr=0x480000,brbcr=0xC0013B", "include cond, ret", 64}, Setting{"numrec=64,brbfcr=0x490000,brbcr=0xC0013B", "exclude cond, ret", 64}}) {
    const auto modelled = lines({"--brbe-model", s.model}), filtered = lines({"--where", s.same_as});
    ASSERT_EQ(modelled.size(), filtered.size()) << s.model;
    size_t records = 0;
    for (size_t i = 0; i < modelled.size(); ++i) {
      ASSERT_LE(modelled[i].size(), s.most) << s.model;
      ASSERT_EQ(modelled[i].size(), std::min(filtered[i].size(), s.most)) << s.model;
      for (size_t k = 0; k < modelled[i].size(); ++k) ASSERT_EQ(modelled[i][k].substr(0, modelled[i][k].rfind('/')), filtered[i][k].substr(0, filtered[i][k].rfind('/')));
      records += modelled[i].size();
    }
    EXPECT_GT(records, 0u) << s.model;
  }
  // EL0 prohibited: user branches leave nothing.
  for (const auto& stack : lines({"--brbe-model", "numrec=64,brbcr=0xC0013A"})) EXPECT_TRUE(stack.empty());
  // Recorded through the model: the file says so, and perf's type and privilege are in it.
  auto live = RunBrink({"record", "--source", "walk", "-F", "2000", "--walk-share", "2", "--brbe-model", "numrec=16,brbfcr=0x400000,brbcr=0xC0013B", "-o", dir.File("m.data"), "--", "/bin/sh", "-c", busy});
  ASSERT_EQ(live.status, 0) << live.err;
  EXPECT_THAT(live.err, HasSubstr("brbe model:"));
  auto text = RunBrink({"script", "-i", dir.File("m.data")}).out;
  EXPECT_THAT(text, HasSubstr("cond"));
  EXPECT_THAT(text, Not(HasSubstr("ret")));
  EXPECT_THAT(RunBrink({"script", "-i", dir.File("m.data"), "--dump-header"}).out, HasSubstr("contiguous false"));
}

struct Refusal {
  std::vector<std::string> words;
  int status;
  const char* says;
};

TEST(Filter, MistakesAreNamed) {
  const std::vector<Refusal> refusals = {
      {{"filter", "check", "kind == rett"}, 2, "column 9"},
      {{"filter", "check", "kind == ret and kind == call"}, 1, "exclude each other"},
      {{"filter", "chek", "kind == ret"}, 2, "neither check nor explain"},
      {{"filter", "check", "from.priv == hv"}, 1, "user or kernel"},
      {{"filter", "check", "cycles > 70000"}, 1, "1 to 65535"},
      {{"filter", "check", "-j any_call,u and pid == 3"}, 2, "as another one"},
      {{"filter", "check", "mispredicted and predicted"}, 1, "exclude each other"},
      {{"filter", "check", "exclude any"}, 1, "never true"},
      {{"filter", "check", "kind in {ret"}, 2, "column"},
      {{"filter", "check", std::string(70'000, '(')}, 2, "longer than 65,536 bytes"},
      {{"filter", "check", std::string(100, '(') + "kind == ret"}, 2, "nested more than 64"},
      {{"record", "-a", "--where", "symbol == main"}, 2, "report --where"},
      {{"record", "-a", "--where", "kind == cal"}, 2, "did you mean call"},
      {{"record", "-a", "-j", "any,mispred"}, 2, "no hardware filters on misprediction"},
      {{"record", "-a", "-j", "stack"}, 2, "-g for call chains"},
      {{"record", "-a", "-e", "arm_brbe/mpred1/"}, 2, "there is no PMU 'arm_brbe'"},
      {{"annotate", "--branch-history"}, 2, "belongs to report"},
      {{"record", "-a", "--brbe-model", "numrec=24"}, 2, "8, 16, 32 or 64"},
      {{"brbe", "decode", "BRBCR_EL9=1"}, 2, "unknown register"},
      {{"brbe", "program", "kind == jump", "--as", "basic"}, 2, "asm, c or explain"},
  };
  for (const Refusal& refusal : refusals) {
    auto result = RunBrink(refusal.words);
    EXPECT_EQ(result.status, refusal.status) << refusal.says << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.says));
  }
}

// Each line of JSON that the two commands print, valid or not, follows its schema.
TEST(Filter, JsonFollowsItsSchemas) {
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  TempDir dir;
  std::ofstream(dir.File("branches")) << "cond 0x1000 0x2000 4 M\nret 0x2010 0xffffffff81000000 6 P\ncall 0x3000 0x4000\nunknown 0x4000 0x5000\n";
  std::ofstream(dir.File("dump")) << "BRBIDR0_EL1=0x5008 BRBINF0_EL1=0xD0000000003 BRBSRC0_EL1=1 BRBTGT0_EL1=2 BRBINF1_EL1=0x3fff0000000402 BRBINF3_EL1=0x2E01\n";
  const std::vector<std::vector<std::string>> filters = {
      {"filter", "check", "kind == ret"}, {"filter", "check", "kind == rett"}, {"filter", "check", "kind == ret", "kind == call"},
      {"filter", "check", "--fields"}, {"filter", "explain", "kind == jump and symbol == main or pid == 3"}, {"filter", "explain", "-j any,u,k"},
      {"filter", "explain", "-j in_tx,any,no_flags"}, {"filter", "explain", "mispredicted and priv == hv"}};
  const std::vector<std::vector<std::string>> brbe = {
      {"brbe", "decode", "BRBCR_EL1=0xC0013B", "BRBINF3_EL1=0x3FFF00000003", "BRBTS_EL1=0xffffffffffffffff"}, {"brbe", "decode", dir.File("dump")},
      {"brbe", "decode", dir.File("dump"), "--all"}, {"brbe", "encode", "BRBFCR_EL1", "BANK=3", "EnI"},
      {"brbe", "check", "brbcr_el1=0xC0013B", "mdcr_el3=0"}, {"brbe", "program", "exclude ret and mispredicted"}, {"brbe", "program", "priv == user", "--vhe"},
      {"brbe", "model", dir.File("branches")}, {"brbe", "model", dir.File("branches"), "--brbe-model", "numrec=8,brbfcr=0x20000"},
      {"brbe", "diagnose", "traps", "mdcr_el3=0"}, {"brbe", "diagnose", "no-records"}};
  for (const auto& [name, calls] : {std::pair("filter", filters), std::pair("brbe", brbe)}) {
    std::string lines;
    for (std::vector<std::string> words : calls) {
      words.push_back("--json");
      std::string out = RunBrink(words).out;
      EXPECT_THAT(out, HasSubstr("\"schema\":\"brink." + std::string(name))) << words[1] << " " << words.back();
      lines += out;
    }
    std::ofstream(dir.File("lines")) << lines;
    auto check = testing_support::Run({"/usr/bin/python3", "-c",
                                       "import json,sys,jsonschema\n"
                                       "v = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))\n"
                                       "for line in open(sys.argv[2]): v.validate(json.loads(line))",
                                       testing_support::SourceDir() + "/docs/schema/" + name + ".json", dir.File("lines")});
    EXPECT_EQ(check.status, 0) << check.err;
  }
  ASSERT_EQ(RunBrink({"brbe", "decode", "BRBCR_EL1=1", "--json=" + dir.File("out")}).status, 0);
  std::ifstream file(dir.File("out"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), HasSubstr("\"BRBCR_EL1\""));
}

TEST(Filter, ExplainPrintsTheReferenceValues) {
  EXPECT_THAT(RunBrink({"filter", "explain", "-j any_call,u"}).out, HasSubstr("0x0E5"));
  EXPECT_THAT(RunBrink({"filter", "explain", "priv == user"}).out, HasSubstr("0x7F0005"));
  auto any = RunBrink({"filter", "explain", "-j", "any,u,k"}).out;
  EXPECT_THAT(any, HasSubstr("0x7E0000"));
  EXPECT_THAT(any, HasSubstr("0xC0013B"));
}

}  // namespace
}  // namespace brink
