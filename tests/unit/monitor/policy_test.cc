// Policy files: what they say, what they refuse, and that the line is named.
#include "monitor/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using ::testing::HasSubstr;
using testing_support::IsOk;

std::string ErrorOf(const std::string& text) {
  auto file = PolicyFile::Parse(text, "p.yaml");
  return file.ok() ? "" : Message(file.status());
}

TEST(Policy, LaterEntriesWinOverEarlierOnes) {
  auto file = PolicyFile::Parse(R"(
version: 1
entries:
  - name: all servers
    match: {exe: "/usr/sbin/*"}
    rules: {P3: low, P9: off}
    alarms_per_minute: 5
  - name: the old one
    match: {exe: "/usr/sbin/old", uid: 33}
    jit: allow
    check: sensitive
    rules: {P3: high}
    action: kill
    action_at: medium
    suppress:
      - {policy: P4, from: "libx.so:*", reason: hand-written jump tables}
)",
                                 "p.yaml");
  ASSERT_THAT(file, IsOk());
  PolicyView one = file->For({.exe = "/usr/sbin/nginx", .comm = "nginx", .container = "", .pod = "", .uid = 33});
  EXPECT_EQ(one.name, "all servers");
  EXPECT_EQ(one.rules[static_cast<size_t>(Policy::kCallTarget)].severity, Severity::kLow);
  EXPECT_TRUE(one.rules[static_cast<size_t>(Policy::kGadgets)].off);
  EXPECT_EQ(one.per_minute, 5u);
  EXPECT_EQ(one.action, Action::kAlert);
  PolicyView two = file->For({.exe = "/usr/sbin/old", .comm = "old", .container = "", .pod = "", .uid = 33});
  EXPECT_EQ(two.rules[static_cast<size_t>(Policy::kCallTarget)].severity, Severity::kHigh);
  EXPECT_EQ(two.jit, true);
  EXPECT_EQ(two.check, CallSet::kSensitive);
  EXPECT_EQ(one.check, std::nullopt);
  EXPECT_EQ(two.action, Action::kKill);
  EXPECT_EQ(two.action_at, Severity::kMedium);
  ASSERT_EQ(two.suppress.size(), 1u);
  EXPECT_TRUE(Suppresses(*two.suppress[0], Policy::kJumpTarget, "libx.so:go", "libx.so:there"));
  EXPECT_FALSE(Suppresses(*two.suppress[0], Policy::kReturnSite, "libx.so:go", "libx.so:there"));
  EXPECT_FALSE(Suppresses(*two.suppress[0], Policy::kJumpTarget, "liby.so:go", "libx.so:there"));
  EXPECT_EQ(file->For({.exe = "/usr/sbin/old", .comm = "old", .container = "", .pod = "", .uid = 0}).name, "all servers");
  EXPECT_EQ(file->For({.exe = "/bin/ls", .comm = "ls", .container = "", .pod = "", .uid = 0}).name, "");
}

TEST(Policy, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(ErrorOf("entries: []\n"), HasSubstr("p.yaml:1: say version: 1"));
  EXPECT_THAT(ErrorOf("version: 2\n"), HasSubstr("version must be 1"));
  EXPECT_THAT(ErrorOf("version: 1\nentires: []\n"), HasSubstr("p.yaml:2: unknown key 'entires'"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {rules: {P14: off}}\n"), HasSubstr("p.yaml:3: no rule 'P14'"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {rules: {P1: severe}}\n"), HasSubstr("not 'severe'"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {jit: maybe}\n"), HasSubstr("jit is allow or deny"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {action: nuke}\n"), HasSubstr("not 'nuke'"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {check: some}\n"), HasSubstr("check is sensitive, all or none, not 'some'"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {match: {exe: [a]}}\n"), HasSubstr("exe must be a word"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {match: {uid: root}}\n"), HasSubstr("uid must be a number"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {suppress: [{policy: P3}]}\n"), HasSubstr("must say its reason"));
  EXPECT_THAT(ErrorOf("version: 1\nentries:\n  - {suppress: [{reason: all}]}\n"), HasSubstr("suppression of everything"));
  EXPECT_THAT(ErrorOf("version: 1\nversion: 1\n"), HasSubstr("is there twice"));
  EXPECT_THAT(ErrorOf("version: 1\nentries: [\n"), HasSubstr("p.yaml:"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("- a\n"), HasSubstr("must be a mapping"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_THAT(ErrorOf(deep + std::string(100, ']')), HasSubstr("nested too deep"));
  EXPECT_THAT(ErrorOf("a: &x [1]\nb: [*x, *x]\nversion: 1\n"), HasSubstr("unknown key 'a'"));
}

TEST(Policy, BuiltInEntriesAreReadAndKnowRuntimes) {
  EXPECT_GT(PolicyFile::BuiltIn().entries().size(), 10u);
  EXPECT_EQ(PolicyFile::BuiltIn().For({.exe = "/usr/bin/node", .comm = "node", .container = "", .pod = "", .uid = 0}).jit, true);
  EXPECT_EQ(PolicyFile::BuiltIn().For({.exe = "/usr/sbin/nginx", .comm = "nginx", .container = "", .pod = "", .uid = 0}).jit, std::nullopt);
}

}  // namespace
}  // namespace brink::cfi
