// Which alarms are told, which are counted, and what they look like for others.
#include "monitor/book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <nlohmann/json.hpp>

#include "cfi/event_text.h"
#include "monitor/alarm_text.h"

namespace brink::cfi {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Alarm MakeAlarm(Policy policy, uint64_t from, uint64_t to, uint64_t time_ns) {
  Alarm alarm;
  alarm.violations = {{policy, Severity::kMedium, 0, from, to, Kind::kRet, "no call instruction ends at the target"}};
  alarm.from = {.address = from, .module = "/usr/bin/server", .build_id = "abc", .offset = from, .symbol = "serve+0x1", .bytes = "\xc3"};
  alarm.to = {.address = to, .module = "/usr/bin/server", .build_id = "abc", .offset = to, .symbol = "win+0x0", .bytes = "\x55"};
  alarm.severity = Severity::kMedium;
  alarm.pid = alarm.tid = 77;
  alarm.start_ns = 5 * kSecond;
  alarm.comm = "server";
  alarm.time_ns = time_ns;
  alarm.process.exec_id = "boot-5000000000-77";
  alarm.context.point = BRINK_CFI_EXIT;
  alarm.context.syscall = SYS_read;
  alarm.branches = {{{.from = from, .to = to, .info = MakeInfo(Kind::kRet)}}};
  return alarm;
}

TEST(AlarmBook, TheSameIsToldOnceAMinuteWithACount) {
  AlarmBook book;
  Alarm first = MakeAlarm(Policy::kReturnSite, 1, 2, kSecond);
  EXPECT_TRUE(book.Take(&first, 60));
  for (uint64_t i = 0; i < 5; ++i) {
    Alarm again = MakeAlarm(Policy::kReturnSite, 1, 2, (2 + i) * kSecond);
    EXPECT_FALSE(book.Take(&again, 60));
  }
  Alarm other = MakeAlarm(Policy::kReturnSite, 1, 3, 3 * kSecond);
  EXPECT_TRUE(book.Take(&other, 60));
  Alarm rule = MakeAlarm(Policy::kBoundary, 1, 2, 3 * kSecond);
  EXPECT_TRUE(book.Take(&rule, 60));
  Alarm later = MakeAlarm(Policy::kReturnSite, 1, 2, 62 * kSecond);
  EXPECT_TRUE(book.Take(&later, 60));
  EXPECT_EQ(later.suppressed_count, 5u);
  EXPECT_EQ(book.told(), 4u);
  EXPECT_EQ(book.repeated(), 5u);
}

TEST(AlarmBook, AMoreSevereOneIsToldAtOnce) {
  AlarmBook book;
  Alarm first = MakeAlarm(Policy::kReturnSite, 1, 2, kSecond), worse = first;
  EXPECT_TRUE(book.Take(&first, 60));
  worse.severity = Severity::kHigh;
  EXPECT_TRUE(book.Take(&worse, 60));
}

TEST(AlarmBook, AFloodOfOneProcessIsCutAndOthersAreNot) {
  AlarmBook book;
  int told = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    Alarm alarm = MakeAlarm(Policy::kReturnSite, 1, 100 + i, kSecond);
    told += book.Take(&alarm, 10);
  }
  EXPECT_EQ(told, 10);
  EXPECT_EQ(book.limited(), 990u);
  Alarm other = MakeAlarm(Policy::kReturnSite, 9, 9, kSecond);
  other.process.exec_id = "boot-1-78";
  EXPECT_TRUE(book.Take(&other, 10));
  Alarm next_minute = MakeAlarm(Policy::kReturnSite, 1, 100'000, 61 * kSecond);
  EXPECT_TRUE(book.Take(&next_minute, 10));
}

TEST(AlarmBook, WhatWasActedOnIsAlwaysTold) {
  AlarmBook book;
  for (uint64_t i = 0; i < 3; ++i) {
    Alarm alarm = MakeAlarm(Policy::kReturnSite, 1, 2, kSecond);
    alarm.context.action = BRINK_CFI_DID_KILL;
    EXPECT_TRUE(book.Take(&alarm, 0));
  }
}

TEST(AlarmText, JsonHasTheFields) {
  auto json = nlohmann::json::parse(AlarmJson(MakeAlarm(Policy::kReturnSite, 0x10, 0x20, kSecond), {.colour = false, .realtime_offset_ns = 1'700'000'000 * kSecond, .host = "h"}));
  EXPECT_EQ(json["schema"], "brink.cfi.alarm.v1");
  EXPECT_EQ(json["time"], "2023-11-14T22:13:21.000000000Z");
  EXPECT_EQ(json["policy_ids"], nlohmann::json::array({"P1"}));
  EXPECT_EQ(json["process"]["exec_id"], "boot-5000000000-77");
  EXPECT_EQ(json["hook"]["syscall"], "read");
  EXPECT_EQ(json["hook"]["point"], "syscall_exit");
  EXPECT_EQ(json["violation"]["to"]["symbol"], "win+0x0");
  EXPECT_EQ(json["confidence"], "full");
  EXPECT_EQ(json["action"]["taken"], "alert");
  EXPECT_FALSE(json["mitre"].empty());
  EXPECT_TRUE(json["container"].is_null());
}

TEST(AlarmText, LossesTaintAndActionsAreNamed) {
  Alarm alarm = MakeAlarm(Policy::kMemory, 0x10, 0x20, kSecond);
  alarm.lost = 3;
  alarm.context.action = BRINK_CFI_DID_KILL | BRINK_CFI_DID_DRY;
  auto json = nlohmann::json::parse(AlarmJson(alarm, {}));
  EXPECT_EQ(json["confidence"], "tainted");
  EXPECT_EQ(json["action"]["taken"], "kill");
  EXPECT_EQ(json["action"]["result"], "dry run");
}

TEST(AlarmText, AnAlarmIsExplained) {
  Alarm alarm = MakeAlarm(Policy::kStack, 0x10, 0x20, kSecond);
  alarm.context.action = BRINK_CFI_DID_KILL;
  alarm.context.point = BRINK_CFI_ENTER;
  alarm.context.syscall = SYS_mprotect;
  alarm.lost = 1;
  auto words = Explain(AlarmJson(alarm, {}));
  ASSERT_TRUE(words.ok()) << words.status();
  for (const char* part : {"P10, severity medium", "seen at syscall_enter of mprotect", "walked on as if the call succeeds", "it had not happened yet", "records were lost", "action kill: done in the kernel", "Where to look"}) {
    EXPECT_THAT(*words, ::testing::HasSubstr(part));
  }
  EXPECT_FALSE(Explain("{\"schema\":\"brink.cfi.alarm.v2\"}").ok());
}

TEST(AlarmText, TheBrokenEdgeIsMarked) {
  const std::string text = AlarmText(MakeAlarm(Policy::kReturnSite, 0x10, 0x20, kSecond), {});
  EXPECT_THAT(text, ::testing::HasSubstr(">>    -X->"));
  EXPECT_THAT(text, ::testing::HasSubstr("medium P1: no call instruction ends at the target"));
  EXPECT_THAT(text, ::testing::HasSubstr("syscall_exit read"));
}

TEST(AlarmText, OtherFormsHaveWhatTheirReadersInsistOn) {
  const Alarm alarm = MakeAlarm(Policy::kBoundary, 0x10, 0x20, kSecond);
  auto ocsf = nlohmann::json::parse(AlarmOcsf(alarm, {.colour = false, .realtime_offset_ns = 0, .host = "h"}));
  EXPECT_EQ(ocsf["class_uid"], 2004);
  EXPECT_EQ(ocsf["type_uid"], 200401);
  EXPECT_EQ(ocsf["metadata"]["version"], "1.1.0");
  EXPECT_EQ(ocsf["severity_id"], 3);
  EXPECT_EQ(ocsf["severity"], "Medium");
  EXPECT_EQ(ocsf["finding_info"]["attacks"][0]["technique"]["uid"], "T1203");
  auto falco = nlohmann::json::parse(AlarmFalco(alarm, {}));
  for (const char* key : {"hostname", "output", "priority", "rule", "source", "tags", "time", "uuid", "output_fields"}) EXPECT_TRUE(falco.contains(key)) << key;
  EXPECT_EQ(falco["priority"], "Warning");
}

}  // namespace
}  // namespace brink::cfi
