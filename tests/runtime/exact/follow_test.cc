// What hop and step record is what the CPU does: known loops, threads, children, exec.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/branch.h"
#include "harness.h"
#include "ptrace/follower.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::exact_test {
namespace {

using ptrace::Follower;
using ptrace::FollowConfig;
using testing_support::IsOk;

#ifdef __aarch64__
constexpr uint64_t kCallBytes = 4;
#else
constexpr uint64_t kCallBytes = 5;
#endif

struct Stack {
  brink_sample head;
  std::vector<BranchEntry> branches;  // oldest first
  std::vector<uint64_t> chain;
};

struct Recording {
  std::vector<Stack> stacks;
  int status = -1;
  std::vector<uint64_t> counters;
};

Stack ReadStack(const brink_rec_header& record) {
  Stack stack;
  stack.head = reinterpret_cast<const brink_sample&>(record);
  auto* entries = reinterpret_cast<const BranchEntry*>(reinterpret_cast<const char*>(&record) + sizeof(brink_sample));
  stack.branches.assign(std::reverse_iterator(entries + stack.head.nr), std::reverse_iterator(entries));
  auto* chain = reinterpret_cast<const uint64_t*>(entries + stack.head.nr);
  stack.chain.assign(chain, chain + stack.head.chain_nr);
  return stack;
}

// Follows exact_target with these words from its exec to its end.
Recording Follow(const FollowConfig& config, std::vector<std::string> words) {
  Recording out;
  auto follower = Follower::Start(config);
  EXPECT_THAT(follower, IsOk());
  if (!follower.ok()) return out;
  int gate[2];
  EXPECT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  words.insert(words.begin(), TargetPath());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char byte;
    (void)!::read(gate[0], &byte, 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(gate[0]);
  EXPECT_THAT((*follower)->AttachCommand(child), IsOk());
  ::close(gate[1]);
  auto take = [&](const brink_rec_header& record) { out.stacks.push_back(ReadStack(record)); };
  while (!(*follower)->all_gone()) {
    struct pollfd wait = {(*follower)->fd(), POLLIN, 0};
    ::poll(&wait, 1, 50);
    EXPECT_THAT((*follower)->Drain(take), IsOk());
  }
  EXPECT_THAT((*follower)->Leave(), IsOk());
  EXPECT_THAT((*follower)->Drain(take), IsOk());
  out.status = WaitFor(child, 10);
  for (uint32_t i = 0; i < ptrace::kCounterCount; ++i) out.counters.push_back((*follower)->counter(i));
  return out;
}

// Whether a stack was taken in that loop: a call that returns at once. The program's start is sampled as well.
bool InLoop(const std::vector<BranchEntry>& branches) {
  for (size_t i = 0; i + 1 < branches.size(); ++i) {
    if (branches[i].kind() == Kind::kCall && branches[i + 1].from == branches[i].to) return true;
  }
  return false;
}

// The loop of `exact_target branches`: call, ret, jmp, then jz on even turns, then the loop's own branch.
void ExpectLoop(const std::vector<BranchEntry>& branches) {
  size_t calls = 0;
  for (size_t i = 0; i + 5 < branches.size(); ++i) {
    if (branches[i].kind() != Kind::kCall) continue;
    ++calls;
    EXPECT_EQ(branches[i + 1].kind(), Kind::kRet);
    EXPECT_EQ(branches[i + 1].from, branches[i].to);
    EXPECT_EQ(branches[i + 1].to, branches[i].from + kCallBytes);
    EXPECT_EQ(branches[i + 2].kind(), Kind::kJump);
    EXPECT_EQ(branches[i + 3].kind(), Kind::kCond);
    bool even = branches[i + 3].from == branches[i + 2].to + 4 || branches[i + 3].to > branches[i + 3].from;
    size_t next = even ? i + 5 : i + 4;
    EXPECT_EQ(branches[next].kind(), Kind::kCall) << "the next turn";
    EXPECT_EQ(branches[next].from, branches[i].from);
  }
  EXPECT_GE(calls, branches.size() / 6);
}

struct Source {
  const char* name;
  bool hop;
};

class ExactSources : public testing::TestWithParam<Source> {};

TEST_P(ExactSources, RecordTheBranchesOfAKnownLoop) {
  Recording recording = Follow({.hop = GetParam().hop, .call_chain = true, .depth = 32, .period_ns = 2'000'000},
                               {"branches", "30000000"});
  EXPECT_EQ(recording.status, 0);
  size_t full = 0;
  for (const Stack& stack : recording.stacks) {
    EXPECT_EQ(stack.head.direction, BRINK_DIR_FUTURE);
    EXPECT_EQ(stack.head.source, GetParam().hop ? BRINK_SOURCE_HOP : BRINK_SOURCE_STEP);
    if (stack.head.stop != BRINK_STOP_FULL || !InLoop(stack.branches)) continue;
    ASSERT_EQ(stack.branches.size(), 32u);
    ExpectLoop(stack.branches);
    EXPECT_EQ(stack.head.end_ip, stack.branches.back().to);
    ASSERT_GE(stack.chain.size(), 3u) << "Branches <- main";
    EXPECT_EQ(stack.chain[1], stack.head.ip);
    ++full;
  }
  EXPECT_GE(full, 5u);
  EXPECT_EQ(recording.counters[ptrace::kDiffers], 0u);
  EXPECT_EQ(recording.counters[ptrace::kIllegalState], 0u);
  EXPECT_EQ(recording.counters[ptrace::kLostSamples], 0u);
}

TEST_P(ExactSources, FollowThreadsAndChildren) {
  Recording recording = Follow({.hop = GetParam().hop, .period_ns = 500'000}, {"work", "800", "33"});
  EXPECT_EQ(recording.status, 33);
  std::set<uint32_t> threads, processes;
  for (const Stack& stack : recording.stacks) {
    threads.insert(stack.head.tid);
    processes.insert(stack.head.tgid);
  }
  EXPECT_GE(threads.size(), 3u) << "main and two workers at least";
  EXPECT_GE(recording.counters[ptrace::kThreads], 6u);
  EXPECT_EQ(recording.counters[ptrace::kDiffers], 0u);
  EXPECT_EQ(recording.counters[ptrace::kIllegalState], 0u);
  EXPECT_EQ(recording.counters[ptrace::kInterrupted], 0u);
}

TEST_P(ExactSources, AKindFilterCountsMatchingRecordsOnly) {
  uint32_t calls = 1u << static_cast<int>(Kind::kCall);
  Recording recording = Follow({.hop = GetParam().hop, .depth = 8, .kinds = calls, .period_ns = 2'000'000},
                               {"branches", "30000000"});
  size_t full = 0;
  for (const Stack& stack : recording.stacks) {
    for (const BranchEntry& branch : stack.branches) EXPECT_EQ(branch.kind(), Kind::kCall);
    if (stack.head.stop != BRINK_STOP_FULL) continue;
    EXPECT_EQ(stack.branches.size(), 8u);
    EXPECT_TRUE(stack.head.flags & BRINK_SAMPLE_FILTERED);
    ++full;
  }
  EXPECT_GE(full, 3u);
}

INSTANTIATE_TEST_SUITE_P(Both, ExactSources, testing::Values(Source{"step", false}, Source{"hop", true}),
                         [](const auto& info) { return info.param.name; });

TEST(WholeRun, HoldsEveryBranchOfTheLoopOnce) {
  constexpr int kTurns = 1000;
  Recording recording = Follow({.whole_run = true, .depth = 512}, {"branches", std::to_string(kTurns)});
  EXPECT_EQ(recording.status, 0);
  // The chunks of the one thread, one behind the other.
  std::vector<BranchEntry> all;
  for (const Stack& stack : recording.stacks) all.insert(all.end(), stack.branches.begin(), stack.branches.end());
  // The loop's call is the one direct call that is made kTurns times and returns at once from its target.
  std::map<uint64_t, int> calls;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    bool at_once = all[i].kind() == Kind::kCall && all[i + 1].kind() == Kind::kRet && all[i + 1].from == all[i].to;
    if (at_once) ++calls[all[i].from];
  }
  int most = 0;
  for (const auto& [from, count] : calls) most = std::max(most, count);
  EXPECT_EQ(most, kTurns);
  EXPECT_EQ(recording.counters[ptrace::kDiffers], 0u);
  EXPECT_EQ(recording.counters[ptrace::kLostSamples], 0u);
}

// A stop between an exclusive load and its store would make the store fail, and the next, for ever.
TEST(WholeRun, ComesThroughExclusiveAccesses) {
  constexpr int kTurns = 400;
  Recording recording = Follow({.whole_run = true, .depth = 512}, {"exclusives", std::to_string(kTurns)});
  EXPECT_EQ(recording.status, 0);
  EXPECT_EQ(recording.counters[ptrace::kDiffers], 0u);
#ifdef __aarch64__
  // The condition in the sequence is taken in every fourth turn.
  std::map<uint64_t, int> taken;
  for (const Stack& stack : recording.stacks) {
    for (const BranchEntry& branch : stack.branches) {
      if (branch.kind() == Kind::kCond && branch.to == branch.from + 16) ++taken[branch.from];
    }
  }
  const bool found = std::ranges::any_of(taken, [](const auto& entry) { return entry.second == kTurns / 4; });
  EXPECT_TRUE(found);
#endif
}

TEST_P(ExactSources, ExclusiveAccessesComeThroughWindows) {
  Recording recording = Follow({.hop = GetParam().hop, .period_ns = 1'000'000}, {"exclusives", "5000000"});
  EXPECT_EQ(recording.status, 0);
  EXPECT_GE(recording.stacks.size(), 3u);
}

TEST(WholeRun, IsOneStraightLinePerChunk) {
  Recording recording = Follow({.whole_run = true, .depth = 2048}, {"exit", "5"});
  EXPECT_EQ(recording.status, 5);
  size_t seams = 0;
  for (size_t i = 0; i + 1 < recording.stacks.size(); ++i) {
    const Stack& stack = recording.stacks[i];
    if (stack.head.stop == BRINK_STOP_FULL) {
      EXPECT_EQ(stack.head.end_ip, recording.stacks[i + 1].head.ip) << "the next chunk begins where this one ends";
      ++seams;
    }
    for (size_t j = 0; j + 1 < stack.branches.size(); ++j) {
      EXPECT_LE(stack.branches[j].to, stack.branches[j + 1].from) << "straight from each target to the next branch";
    }
  }
  EXPECT_GE(seams, 1u);
}

TEST(Follower, RefusesWhatCannotBeFollowed) {
  auto follower = Follower::Start({});
  ASSERT_THAT(follower, IsOk());
  auto gone = (*follower)->AttachProcess(4'190'000);
  EXPECT_FALSE(gone.ok());
  EXPECT_EQ(ErrnoOf(gone.status()), ESRCH);
  EXPECT_FALSE(Follower::Start({.depth = 0}).ok());
  EXPECT_FALSE(Follower::Start({.hop = true, .whole_run = true}).ok());
}

TEST(Follower, SaysWhenTheHelperWasKilled) {
  auto follower = Follower::Start({});
  ASSERT_THAT(follower, IsOk());
  ::kill((*follower)->helper_pid(), SIGKILL);
  bool said = false;
  for (int i = 0; i < 2000 && !said; ++i) {
    said = !(*follower)->Drain([](const brink_rec_header&) {}).ok();
    if (!said) SleepMs(5);
  }
  EXPECT_TRUE(said);
}

TEST(Follower, TheHelperEndsWithItsCollector) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t collector = ::fork();
  if (collector == 0) {
    auto follower = Follower::Start({});
    pid_t helper = (*follower)->helper_pid();
    (void)!::write(ends[1], &helper, sizeof helper);
    ::pause();
  }
  pid_t helper = 0;
  ASSERT_EQ(::read(ends[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
  EXPECT_EQ(::kill(helper, 0), 0);
  ::kill(helper, SIGTERM);
  ::kill(helper, SIGINT);
  ::kill(helper, SIGHUP);
  SleepMs(50);
  EXPECT_EQ(::kill(helper, 0), 0) << "deaf to what is meant for the collector";
  ::kill(collector, SIGKILL);
  ::waitpid(collector, nullptr, 0);
  bool ended = false;
  for (int i = 0; i < 4000 && !ended; ++i) {
    SleepMs(5);
    ended = ::kill(helper, 0) != 0 || ::waitpid(helper, nullptr, WNOHANG) == helper;
  }
  EXPECT_TRUE(ended);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace brink::exact_test
