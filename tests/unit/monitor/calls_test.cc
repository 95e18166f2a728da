// Check points by name; call sites by their bytes, as BPF sees them and as the decoder does.
#include "monitor/calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstring>
#include <random>

#include "cfi/call_site.h"
#include "cfi/call_site_a64.h"
#include "decode/flow.h"
#include "snap/syscalls.h"
#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using testing_support::IsOk;

TEST(Calls, SetsAndChanges) {
  brink_cfi_config config = {};
  ASSERT_THAT(ChooseCalls(CallSet::kSensitive, {}, Entries::kWalked, &config), IsOk());
  EXPECT_TRUE(config.call[SYS_execve] & BRINK_CFI_AT_ENTER);
  EXPECT_TRUE(config.call[SYS_execve] & BRINK_CFI_FAILS);
  EXPECT_TRUE(config.call[SYS_mprotect] & BRINK_CFI_IF_EXEC);
  EXPECT_EQ(config.call[SYS_read], 0);
  config = {};
  ASSERT_THAT(ChooseCalls(CallSet::kAll, {"-futex,write", "close:exit"}, Entries::kWalked, &config), IsOk());
  EXPECT_EQ(config.call[SYS_read], BRINK_CFI_AT_EXIT);
  EXPECT_EQ(config.call[SYS_futex], 0);
  EXPECT_EQ(config.call[SYS_write], BRINK_CFI_AT_ENTER);
  EXPECT_EQ(config.call[SYS_close], BRINK_CFI_AT_EXIT);
  config = {};
  ASSERT_THAT(ChooseCalls(CallSet::kNone, {}, Entries::kWalked, &config), IsOk());
  for (uint8_t how : config.call) EXPECT_EQ(how, 0);
}

TEST(Calls, AnEntryThatReadsWhatItsCallWritesIsConfirmedAtTheEnd) {
  brink_cfi_config config = {};
  ASSERT_THAT(ChooseCalls(CallSet::kSensitive, {"read,write", "-ptrace"}, Entries::kWalked, &config), IsOk());
  for (int call : {SYS_read, SYS_accept4, SYS_bpf}) EXPECT_EQ(config.call[call] & (BRINK_CFI_WRITES | BRINK_CFI_AT_ENTER | BRINK_CFI_AT_EXIT), BRINK_CFI_WRITES | BRINK_CFI_AT_ENTER | BRINK_CFI_AT_EXIT) << call;
  for (int call : {SYS_write, SYS_execve, SYS_mprotect, SYS_connect, SYS_ptrace}) EXPECT_FALSE(config.call[call] & BRINK_CFI_WRITES) << call;
  EXPECT_EQ(config.call[SYS_ptrace], 0);
  // Branches that were recorded on the way are not written over, but a switch may have emptied them.
  config = {};
  ASSERT_THAT(ChooseCalls(CallSet::kSensitive, {"read", "write:both"}, Entries::kRecorded, &config), IsOk());
  EXPECT_EQ(config.call[SYS_read] & (BRINK_CFI_WRITES | BRINK_CFI_AT_ENTER | BRINK_CFI_AT_EXIT), BRINK_CFI_AT_ENTER);
  for (int call : {SYS_accept4, SYS_bpf}) EXPECT_TRUE(config.call[call] & BRINK_CFI_AT_EXIT) << call;
  EXPECT_EQ(config.call[SYS_write] & BRINK_CFI_AT_EXIT, BRINK_CFI_AT_EXIT);
  EXPECT_TRUE(WritesMemory(SYS_read));
  EXPECT_FALSE(WritesMemory(SYS_write));
  EXPECT_FALSE(WritesMemory(~0u));
  EXPECT_TRUE(IsSensitive(SYS_execve));
  EXPECT_FALSE(IsSensitive(SYS_read));
}

TEST(Calls, NothingIsWalkedAcrossThatDoesNotComeBack) {
  for (CallSet set : {CallSet::kSensitive, CallSet::kAll}) {
    brink_cfi_config config = {};
    ASSERT_THAT(ChooseCalls(set, {}, Entries::kWalked, &config), IsOk());
    for (const char* name : {"exit", "exit_group", "clone", "vfork", "fork", "clone3"}) {
      const auto call = snap::SyscallByName(name);  // machines lack some
      EXPECT_EQ(call ? config.call[*call] : 0, 0) << name;
    }
    // Looked at for whether there was a signal; not walked.
    EXPECT_TRUE(config.call[SYS_rt_sigreturn] & BRINK_CFI_SIGRETURN);
  }
  brink_cfi_config config = {};
  EXPECT_EQ(ChooseCalls(CallSet::kNone, {"rt_sigreturn"}, Entries::kWalked, &config).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ChooseCalls(CallSet::kNone, {"no_such_call"}, Entries::kWalked, &config).code(), absl::StatusCode::kInvalidArgument);
}

// What the decoder takes for a call that ends where the bytes end.
bool DecoderSeesCall(const uint8_t* bytes) {
  for (size_t length = CFI_CALL_BYTES; length >= 2; --length) {
    auto insn = decode::Decode(decode::Machine::kX86, {bytes + CFI_CALL_BYTES - length, length}, 0);
    if (insn && insn->length == length && (insn->flow == decode::Flow::kCall || insn->flow == decode::Flow::kIndCall)) return true;
  }
  return false;
}

TEST(CallSites, BytesAndDecoderAgree) {
  std::mt19937_64 random(3);
  uint64_t calls = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    uint8_t bytes[CFI_CALL_BYTES];
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    // Most random bytes are none: make the beginnings of calls frequent.
    if (i % 2) bytes[random() % CFI_CALL_BYTES] = random() % 3 ? 0xff : 0xe8;
    const bool seen = cfi_call_ends(bytes), expected = DecoderSeesCall(bytes);
    calls += expected;
    // Prefixes that make the decoder refuse (lock) or make it a far call are the only way to differ, and to the safe side.
    if (expected) {
      ASSERT_TRUE(seen) << i;
    }
  }
  EXPECT_GT(calls, 10'000u);
  uint64_t wrong = 0, none = 0;
  for (int i = 0; i < 500'000; ++i) {
    uint8_t bytes[CFI_CALL_BYTES];
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    if (DecoderSeesCall(bytes)) continue;
    ++none;
    wrong += cfi_call_ends(bytes);
  }
  EXPECT_LT(wrong * 1000, none);
}

// Each word is one instruction: both say the same of all.
TEST(CallSites, WordsOfA64AndDecoderAgree) {
  std::mt19937_64 random(4);
  uint64_t calls = 0, returns = 0;
  for (int i = 0; i < 400'000; ++i) {
    auto word = static_cast<uint32_t>(random());
    // Words in which only what a few bits say makes them a call or return.
    constexpr uint32_t kNear[] = {0x94000000, 0xd63f0000, 0xd63f081f, 0xd73f0800, 0xd65f0000, 0xd65f0bff, 0xd61f0000};
    if (i % 4) word = kNear[random() % 7] ^ (i % 4 == 3 ? word & 0x3ff : 0) ^ (i % 4 == 2 ? 1u << random() % 32 : 0) ^ static_cast<uint32_t>(random() % 32) << 5;
    // The decoder follows words that no CPU knows: forms with authentication in which fixed bits are others.
    const bool fixed = (word & 0xff9ff800) == 0xd61f0800;
    if (fixed && ((word & 31) != 31 || ((word >> 21 & 3) == 2 && (word >> 5 & 31) != 31))) continue;
    uint8_t bytes[4];
    std::memcpy(bytes, &word, sizeof word);
    const auto insn = decode::Decode(decode::Machine::kA64, bytes, 0);
    const auto flow = insn ? insn->flow : decode::Flow::kOther;
    ASSERT_EQ(cfi_a64_calls(word) != 0, flow == decode::Flow::kCall) << std::hex << word;
    ASSERT_EQ(cfi_a64_calls_register(word) != 0, flow == decode::Flow::kIndCall) << std::hex << word;
    ASSERT_EQ(cfi_a64_returns(word) != 0, flow == decode::Flow::kRet) << std::hex << word;
    calls += flow == decode::Flow::kCall || flow == decode::Flow::kIndCall;
    returns += flow == decode::Flow::kRet;
  }
  EXPECT_GT(calls, 20'000u);
  EXPECT_GT(returns, 10'000u);
}

}  // namespace
}  // namespace brink::cfi
