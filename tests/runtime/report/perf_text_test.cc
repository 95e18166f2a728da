// brink script's symbols against perf's: the same text, but for what brink knows better, which is listed here.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exact_recording.h"
#include "support/process.h"

namespace brink {
namespace {

using testing_support::RunBrink;
using testing_support::SharedData;
using testing_support::TempDir;

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  std::string word;
  while (in >> word) out.push_back(word);
  return out;
}

// Words that differ; `allowed` says of a pair that it may.
void Compare(const std::string& recording, const std::string& fields, bool (*allowed)(const std::string& perf, const std::string& brink)) {
  auto perf = testing_support::Run({"perf", "script", "-i", recording, "-F", fields});
  if (perf.status != 0) GTEST_SKIP() << "needs perf: " << perf.err;
  auto brink = RunBrink({"script", "-i", recording, "-F", fields});
  ASSERT_EQ(brink.status, 0) << brink.err;
  if (!allowed) {
    EXPECT_TRUE(perf.out == brink.out) << recording << " " << fields;
    return;
  }
  auto theirs = Words(perf.out), ours = Words(brink.out);
  ASSERT_EQ(theirs.size(), ours.size()) << recording;
  size_t wrong = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i] != ours[i] && !allowed(theirs[i], ours[i]) && ++wrong < 5) ADD_FAILURE() << recording << ": perf " << theirs[i] << ", brink " << ours[i];
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(ScriptSymbols, EqualPerfsOnSharedRecordings) {
  for (const char* name : {"skylake-lbr32.data", "skylake-y-lbr32.data", "arm-etm-kernel.data", "arm-etm-hwindex.data", "sandybridge-lbr16-zeros.data"}) {
    auto path = SharedData(std::string("perfdata/") + name);
    if (!path) GTEST_SKIP() << "needs the shared recordings";
    for (const char* fields : {"ip,brstacksym", "ip,sym,brstacksym"}) Compare(*path, fields, nullptr);
  }
}

// perf names another host's vdso with this host's.
TEST(ScriptSymbols, AForeignVdsoIsNotNamed) {
  auto path = SharedData("perfdata/sandybridge-lbr16-callchain.data");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  Compare(*path, "ip,brstacksym", [](const std::string& perf, const std::string& brink) {
    return perf.find("vdso") != std::string::npos && brink.find("[unknown]") != std::string::npos && brink.find("vdso") == std::string::npos;
  });
}

TEST(ScriptSymbols, EqualPerfsOnAProgramWithSymbols) {
  TempDir dir;
  std::string source = testing_support::SourceDir() + "/examples/demo/demo.c";
  if (testing_support::Run({"gcc", "-O1", "-g", "-o", dir.File("demo"), source}).status != 0) GTEST_SKIP() << "needs gcc";
  auto counts = testing_report::RecordExactly({.command = {dir.File("demo")}, .output = dir.File("demo.data"), .windows = 40, .depth = 64});
  if (!counts.ok()) GTEST_SKIP() << "needs ptrace";
  for (const char* fields : {"ip,brstack", "ip,brstacksym", "ip,sym,brstacksym", "comm,pid,tid,time,event,ip,sym,brstacksym"}) {
    // The loader has no symbol table: perf leaves code without a name, brink says after which exported function it comes;
    // and perf keeps symbol versions.
    Compare(dir.File("demo.data"), fields, [](const std::string& perf, const std::string& brink) {
      return (perf.find("[unknown]") != std::string::npos && brink.find('~') != std::string::npos) || perf.find("@GLIBC") != std::string::npos;
    });
  }
}

}  // namespace
}  // namespace brink
