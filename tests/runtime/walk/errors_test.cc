// What goes wrong around a walk: each is said clearly and counted, and the recording goes on where it can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include "support/features.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "walk/recording_check.h"

namespace brink::testing_support {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class WalkErrors : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("source.walk"); }

  ProcessResult Record(std::vector<std::string> options, const std::vector<std::string>& argv, const std::vector<std::string>& env = {}) {
    std::vector<std::string> words = {"record", "--source", "walk", "-F", "1999", "--walk-share", "2", "-o", dir_.File("data")};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), argv.begin(), argv.end());
    return RunBrink(words, {.timeout = std::chrono::seconds(120), .env = env});
  }

  // The number that stands before `word` in what a run said; -1: it does not stand there.
  static long Said(const std::string& text, const std::string& word) {
    std::smatch match;
    if (!std::regex_search(text, match, std::regex("([0-9,]+) " + word))) return -1;
    std::string digits = match[1];
    digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
    return std::stol(digits);
  }

  void ExpectTrueStacks() {
    auto verdict = CheckRecording(dir_.File("data"));
    ASSERT_THAT(verdict, IsOk());
    EXPECT_EQ(verdict->code.wrong, 0u) << testing::PrintToString(verdict->code.complaints);
  }

  TempDir dir_;
};

TEST_F(WalkErrors, AKernelWithoutTypesIsNamed) {
  // The real thing, in a mount namespace of its own, so that no switch of ours is what is tested.
  std::string script = "mount -t tmpfs none /sys/kernel/btf || exit 77; exec " + BrinkBinary() + " record --source walk -o " + dir_.File("data") + " -- true";
  ProcessResult result = testing_support::Run({"unshare", "-m", "sh", "-c", script});
  if (result.status == 77) GTEST_SKIP() << "cannot hide the types: " << result.err;
  EXPECT_EQ(result.status, 125) << result.err;
  EXPECT_THAT(result.err, HasSubstr("/sys/kernel/btf/vmlinux is not there"));
  EXPECT_THAT(result.err, HasSubstr("CONFIG_DEBUG_INFO_BTF"));
}

TEST_F(WalkErrors, AKernelBelowTheFloorIsToldWhatItLacks) {
  for (const char* lacks : {"bpf.loop", "bpf.ringbuf"}) {
    ProcessResult result = Record({}, {"true"}, {std::string("BRINK_FAKE=") + lacks + "=off"});
    EXPECT_EQ(result.status, 125) << result.err;
    EXPECT_THAT(result.err, HasSubstr(lacks));
  }
}

// A program of 17 instructions in 32-bit code: mov ecx, n; dec ecx; jnz; exit(7).
std::string Compat32() {
  const uint8_t code[] = {0xb9, 0x00, 0xe1, 0xf5, 0x05, 0x49, 0x75, 0xfd, 0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80};
  const uint32_t base = 0x8048000, head = 84, all = head + sizeof code;
  std::string file("\x7f" "ELF\x01\x01\x01", 7);
  file.resize(16);
  auto put = [&](uint32_t value, size_t bytes) { file.append(reinterpret_cast<const char*>(&value), bytes); };
  put(2, 2), put(3, 2), put(1, 4), put(base + head, 4), put(52, 4), put(0, 4), put(0, 4);
  put(52, 2), put(32, 2), put(1, 2), put(0, 2), put(0, 2), put(0, 2);
  put(1, 4), put(0, 4), put(base, 4), put(base, 4), put(all, 4), put(all, 4), put(5, 4), put(4096, 4);
  file.append(reinterpret_cast<const char*>(code), sizeof code);
  return file;
}

TEST_F(WalkErrors, A32BitProgramIsRecordedWithoutBranches) {
  std::ofstream(dir_.File("small"), std::ios::binary) << Compat32();
  ::chmod(dir_.File("small").c_str(), 0755);
  if (testing_support::Run({dir_.File("small")}).status != 7) GTEST_SKIP() << "this kernel runs no 32-bit programs";
  ProcessResult result = Record({}, {dir_.File("small")});
  EXPECT_EQ(result.status, 7) << result.err;
  EXPECT_GT(Said(result.err, "samples in 32-bit code have no branches"), 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("unsupported 100.0%"));
}

// Nobody but its owner may read the binary, and brink may not look into the process: the code comes with the miss itself.
TEST_F(WalkErrors, ABinaryThatCannotBeReadIsWalkedAllTheSame) {
  if (::geteuid() != 0 || !std::filesystem::exists("/usr/bin/setpriv")) GTEST_SKIP() << "needs root and setpriv to drop rights";
  ::chmod(dir_.path().c_str(), 0777);
  std::filesystem::copy_file(BrinkBinary(), dir_.File("brink"));
  std::filesystem::copy_file("/bin/gzip", dir_.File("secret"));
  std::ofstream(dir_.File("input")) << testing_support::Run({"od", "-v", "-N", "600000", BrinkBinary()}).out;
  ::chmod(dir_.File("brink").c_str(), 0755);
  ::chmod(dir_.File("secret").c_str(), 0111);
  ProcessResult result = testing_support::Run({"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all,+bpf,+perfmon",
                              "--ambient-caps=-all,+bpf,+perfmon", dir_.File("brink"), "record", "--source", "walk", "-F", "1999", "--walk-share", "2", "-o",
                              dir_.File("data"), "--", dir_.File("secret"), "-5", "-c", dir_.File("input")},
                             {.timeout = std::chrono::seconds(120), .cwd = dir_.path()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("could not be read in"));
  EXPECT_THAT(result.err, HasSubstr("segment bases are unknown"));
  ::chmod(dir_.File("secret").c_str(), 0755);
  auto verdict = CheckRecording(dir_.File("data"));
  ASSERT_THAT(verdict, IsOk());
  EXPECT_GT(verdict->with_stack, 0u) << result.err;
  EXPECT_EQ(verdict->code.wrong, 0u) << testing::PrintToString(verdict->code.complaints);
}

// By the time that a miss is looked at, its process is gone.
TEST_F(WalkErrors, TargetsThatEndWhileTheirCodeIsLifted) {
  ProcessResult result = Record({"-F", "5000"}, {"sh", "-c", "i=0; while [ $i -lt 250 ]; do /bin/true; i=$((i+1)); done; exit 9"});
  EXPECT_EQ(result.status, 9) << result.err;
  EXPECT_GT(Said(result.err, "gone before"), 0) << result.err;
  ExpectTrueStacks();
}

// A cache that holds a fraction of the program's code.
TEST_F(WalkErrors, AFullCodeCacheIsCountedAndTheWalksStayTrue) {
  ProcessResult result = Record({"--code-cache", "64K"}, {"/usr/bin/python3", "-c",
                                "import json,re,decimal\nfor i in range(60): json.loads(json.dumps(list(range(1500)))); re.findall('[a-z]+', 'ab1' * 900); decimal.Decimal(i).sqrt()"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(Said(result.err, "evicted"), 0) << result.err;
  ExpectTrueStacks();
}

}  // namespace
}  // namespace brink::testing_support
