#include "script/tasks.h"

#include <gtest/gtest.h>

namespace brink::script {
namespace {

using perfdata::Record;

Record MmapRecord(uint32_t pid, uint64_t start, uint64_t length, uint64_t pgoff, std::string_view name = "/bin/x") {
  Record record;
  record.misc = perfdata::kMiscUser;
  record.body = perfdata::Mmap{.pid = pid, .tid = pid, .start = start, .length = length, .pgoff = pgoff, .filename = name};
  return record;
}

Record ForkRecord(uint32_t pid, uint32_t ppid) {
  Record record;
  record.body = perfdata::Task{.pid = pid, .ppid = ppid, .tid = pid, .ptid = ppid};
  return record;
}

Record CommRecord(uint32_t tid, std::string_view name) {
  Record record;
  record.body = perfdata::Comm{.pid = tid, .tid = tid, .comm = name};
  return record;
}

TEST(Tasks, ANewMappingCutsTheOldOnesDown) {
  Tasks tasks(true);
  tasks.Observe(MmapRecord(1, 0x1000, 0x4000, 0));
  tasks.Observe(MmapRecord(1, 0x2000, 0x1000, 0x9000));
  EXPECT_EQ(tasks.FileOffset(1, 0x1fff), 0xfffu);
  EXPECT_EQ(tasks.FileOffset(1, 0x2000), 0x9000u);
  EXPECT_EQ(tasks.FileOffset(1, 0x3000), 0x2000u);  // the rest of the first one, still counted from its start
  EXPECT_EQ(tasks.FileOffset(1, 0x5000), 0x5000u);
  tasks.Observe(MmapRecord(1, 0x0, 0x10000, 0));
  EXPECT_EQ(tasks.FileOffset(1, 0x2000), 0x2000u);
}

TEST(Tasks, AForkCopiesAndThenGoesItsOwnWay) {
  Tasks tasks(true);
  tasks.Observe(CommRecord(1, "parent"));
  tasks.Observe(MmapRecord(1, 0x1000, 0x1000, 0x5000));
  tasks.Observe(ForkRecord(2, 1));
  EXPECT_EQ(tasks.Comm(2), "parent");
  EXPECT_EQ(tasks.FileOffset(2, 0x1000), 0x5000u);
  tasks.Observe(MmapRecord(2, 0x1000, 0x1000, 0x6000));
  tasks.Observe(CommRecord(2, "child"));
  EXPECT_EQ(tasks.FileOffset(2, 0x1000), 0x6000u);
  EXPECT_EQ(tasks.FileOffset(1, 0x1000), 0x5000u);
  EXPECT_EQ(tasks.Comm(1), "parent");
}

TEST(Tasks, NamesWithoutARecordAreTheNumber) {
  Tasks tasks(false);
  EXPECT_EQ(tasks.Comm(0), "swapper");
  EXPECT_EQ(tasks.Comm(77), ":77");
  EXPECT_EQ(tasks.Comm(UINT32_MAX), ":-1");
}

TEST(Tasks, MappingsOfNoFileKeepTheAddress) {
  Tasks tasks(true);
  tasks.Observe(MmapRecord(1, 0x1000, 0x1000, 0x5000, "//anon"));
  EXPECT_EQ(tasks.FileOffset(1, 0x1800), 0x1800u);
  tasks.Observe(MmapRecord(1, UINT64_MAX - 0xfff, 0x2000, 0));  // beyond the end of the address space
  EXPECT_EQ(tasks.FileOffset(1, UINT64_MAX - 1), 0xffeu);
}

}  // namespace
}  // namespace brink::script
