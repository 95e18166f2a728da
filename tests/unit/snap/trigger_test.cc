#include "snap/trigger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/hw_breakpoint.h>
#include <signal.h>

#include "support/status_matchers.h"

namespace brink::snap {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;

struct Spelling {
  const char* text;
  TriggerKind kind;
  const char* category;
  const char* name;  // or symbol
};
void PrintTo(const Spelling& spelling, std::ostream* out) { *out << spelling.text; }

class Spellings : public testing::TestWithParam<Spelling> {};

TEST_P(Spellings, AreUnderstood) {
  auto trigger = ParseTrigger(GetParam().text);
  ASSERT_THAT(trigger, IsOk());
  EXPECT_EQ(trigger->kind, GetParam().kind);
  EXPECT_EQ(trigger->category, GetParam().category);
  EXPECT_EQ(trigger->name.empty() ? trigger->symbol : trigger->name, GetParam().name);
  EXPECT_EQ(trigger->text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, Spellings,
    testing::Values(Spelling{"tracepoint:sched:sched_switch", TriggerKind::kTracepoint, "sched", "sched_switch"}, Spelling{"t:a:b", TriggerKind::kTracepoint, "a", "b"},
                    Spelling{"raw_tracepoint:sys_enter", TriggerKind::kRawTracepoint, "", "sys_enter"}, Spelling{"rt:sys_enter", TriggerKind::kRawTracepoint, "", "sys_enter"},
                    Spelling{"rawtracepoint:vmlinux:sys_enter", TriggerKind::kRawTracepoint, "", "sys_enter"},
                    Spelling{"kprobe:vfs_read", TriggerKind::kKprobe, "", "vfs_read"}, Spelling{"k:vfs_*", TriggerKind::kKprobe, "", "vfs_*"},
                    Spelling{"kr:vfs_read", TriggerKind::kKretprobe, "", "vfs_read"}, Spelling{"fentry:vfs_read", TriggerKind::kFentry, "", "vfs_read"},
                    Spelling{"kfunc:vmlinux:vfs_read", TriggerKind::kFentry, "", "vfs_read"}, Spelling{"fr:vfs_read", TriggerKind::kFexit, "", "vfs_read"},
                    Spelling{"uprobe:/bin/sh:main", TriggerKind::kUprobe, "", "main"}, Spelling{"u:libc:malloc", TriggerKind::kUprobe, "", "malloc"},
                    Spelling{"ur:libc:malloc", TriggerKind::kUretprobe, "", "malloc"}, Spelling{"uprobe:/a:ns::Class::f", TriggerKind::kUprobe, "", "ns::Class::f"},
                    Spelling{"usdt:/bin/x:prov:name", TriggerKind::kUsdt, "prov", "name"}, Spelling{"U:/bin/x:name", TriggerKind::kUsdt, "", "name"},
                    Spelling{"syscall:openat", TriggerKind::kSyscallExit, "", "openat"}, Spelling{"syscall:openat:exit", TriggerKind::kSyscallExit, "", "openat"},
                    Spelling{"syscall:openat:enter", TriggerKind::kSyscallEnter, "", "openat"}, Spelling{"exec", TriggerKind::kExec, "", ""},
                    Spelling{"exit", TriggerKind::kExit, "", ""}, Spelling{"oom", TriggerKind::kOom, "", ""}, Spelling{"manual", TriggerKind::kManual, "", ""}));

TEST(ParseTrigger, PlacesInPrograms) {
  auto offset = ParseTrigger("uprobe:/bin/x:main+0x10");
  ASSERT_THAT(offset, IsOk());
  EXPECT_EQ(offset->symbol, "main");
  EXPECT_EQ(offset->offset, 0x10u);
  auto address = ParseTrigger("u:/bin/x:0x401000");
  ASSERT_THAT(address, IsOk());
  EXPECT_EQ(address->address, 0x401000u);
  auto line = ParseTrigger("u:/bin/x:dir/file.c:42");
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->line_file, "dir/file.c");
  EXPECT_EQ(line->line, 42u);
}

TEST(ParseTrigger, Signals) {
  auto faults = ParseTrigger("signal:SEGV,SIGABRT,7");
  ASSERT_THAT(faults, IsOk());
  EXPECT_EQ(faults->signals, uint64_t{1} << (SIGSEGV - 1) | uint64_t{1} << (SIGABRT - 1) | uint64_t{1} << (SIGBUS - 1));
  EXPECT_TRUE(faults->fatal_only);
  EXPECT_FALSE(ParseTrigger("signal:USR1")->fatal_only);
  EXPECT_TRUE(ParseTrigger("signal:USR1:fatal")->fatal_only);
  EXPECT_FALSE(ParseTrigger("signal:SEGV:all")->fatal_only);
  EXPECT_EQ(ParseTrigger("signal:SEGV:sent")->kind, TriggerKind::kSignalSent);
}

TEST(ParseTrigger, Watchpoints) {
  auto watch = ParseTrigger("watchpoint:0x1000:4:rw");
  ASSERT_THAT(watch, IsOk());
  EXPECT_EQ(watch->address, 0x1000u);
  EXPECT_EQ(watch->length, 4u);
  EXPECT_EQ(watch->watch_mode, static_cast<uint32_t>(HW_BREAKPOINT_RW));
  EXPECT_EQ(ParseTrigger("w:0x1000:8:x")->watch_mode, static_cast<uint32_t>(HW_BREAKPOINT_X));
}

TEST(ParseTrigger, Clocks) {
  EXPECT_EQ(ParseTrigger("sample:1000")->period_ns, 1'000'000u);
  EXPECT_EQ(ParseTrigger("profile:hz:99")->period_ns, 10'101'010u);
  EXPECT_EQ(ParseTrigger("profile:ms:5")->period_ns, 5'000'000u);
}

TEST(ParseTrigger, EventsKeepTheirModifiers) {
  auto event = ParseTrigger("perf:cycles:u:1000");
  ASSERT_THAT(event, IsOk());
  EXPECT_EQ(event->event, "cycles:u");
  EXPECT_EQ(event->period, 1000u);
  EXPECT_EQ(ParseTrigger("software:faults:100")->event, "faults");
}

struct Wrong {
  const char* text;
  size_t column;
  const char* says;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.text; }

class WrongTriggers : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTriggers, PointToTheColumn) {
  auto trigger = ParseTrigger(GetParam().text);
  ASSERT_FALSE(trigger.ok());
  EXPECT_EQ(trigger.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TriggerErrorColumn(trigger.status()), GetParam().column);
  EXPECT_THAT(Message(trigger.status()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongTriggers,
    testing::Values(Wrong{"", 1, "unknown kind"}, Wrong{"krobe:x", 1, "nearest: kprobe"}, Wrong{"tracepoint", 11, "category"}, Wrong{"tracepoint:sched", 17, "name"},
                    Wrong{"tracepoint:a:b:c", 15, "unexpected ':c'"}, Wrong{"kprobe:f+zz", 10, "no number"}, Wrong{"kretprobe:f+4", 11, "without an offset"},
                    Wrong{"uprobe:/bin/x", 14, "function"}, Wrong{"syscall:openat:leave", 16, "neither enter nor exit"}, Wrong{"signal:SEGV,SEGX", 13, "SIGSEGV"},
                    Wrong{"signal:SEGV:now", 13, "none of fatal, all, sent"}, Wrong{"watch:0x1000:3:w", 14, "1, 2, 4 or 8"}, Wrong{"watch:0x1001:8:w", 7, "multiple"},
                    Wrong{"watch:0x1000:8:wx", 16, "the CPU has no breakpoint"}, Wrong{"watch:0x1000:4:x", 14, "length 8"}, Wrong{"exec:now", 5, "unexpected"},
                    Wrong{"sample:0", 8, "no frequency"}, Wrong{"profile:kHz:1", 9, "none of hz"}, Wrong{"perf:cycles", 12, "missing the period"},
                    Wrong{"interval:s:1", 1, "sample (for times)"}));

TEST(ParseTrigger, SidesFollowTheCodeThatTheTriggerStandsIn) {
  EXPECT_EQ(ParseTrigger("kprobe:f")->side(), Side::kKernel);
  EXPECT_EQ(ParseTrigger("t:a:b")->side(), Side::kKernel);
  EXPECT_EQ(ParseTrigger("signal:SEGV")->side(), Side::kUser);
  EXPECT_EQ(ParseTrigger("syscall:openat:enter")->side(), Side::kUser);
  EXPECT_EQ(ParseTrigger("u:a:b")->side(), Side::kUser);
}

}  // namespace
}  // namespace brink::snap
