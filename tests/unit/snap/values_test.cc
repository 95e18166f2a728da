#include "snap/values.h"

#include <gtest/gtest.h>

#include "snap/syscalls.h"

namespace brink::snap {
namespace {

TEST(ParseFormat, FieldsOfATracepoint) {
  auto fields = ParseFormat(
      "name: sys_enter_openat\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
      "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n"
      "\tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n\tfield:__data_loc char[] name;\toffset:48;\tsize:4;\tsigned:0;\n\nprint fmt: x\n");
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].name, "__syscall_nr");
  EXPECT_TRUE(fields[0].is_signed);
  EXPECT_EQ(fields[1].name, "filename");
  EXPECT_EQ(fields[1].offset, 24u);
  EXPECT_TRUE(fields[1].is_char_pointer);
  EXPECT_EQ(fields[2].name, "comm");
  EXPECT_TRUE(fields[2].is_array);
  EXPECT_TRUE(fields[3].is_array);
}

TEST(ReplaceArrows, OnlyBetweenNames) {
  EXPECT_EQ(ReplaceArrows("args.file->f_flags & 1"), "args.file.f_flags & 1");
  EXPECT_EQ(ReplaceArrows("ret ->1"), "ret ->1");
  EXPECT_EQ(ReplaceArrows("args.a->b->c == 2"), "args.a.b.c == 2");
}

#if defined(__x86_64__)
TEST(ParseUsdtArgument, Forms) {
  brink_snap_load load;
  ASSERT_TRUE(ParseUsdtArgument("-4@%eax", &load));
  EXPECT_EQ(load.size, 4);
  EXPECT_TRUE(load.is_signed);
  EXPECT_EQ(load.offset[0], 80);
  EXPECT_EQ(load.steps, 1);
  ASSERT_TRUE(ParseUsdtArgument("8@-16(%rbp)", &load));
  EXPECT_EQ(load.steps, 2);
  EXPECT_EQ(load.offset[0], 32);
  EXPECT_EQ(load.offset[1], -16);
  EXPECT_EQ(load.user, 2);
  ASSERT_TRUE(ParseUsdtArgument("1@%r12b", &load));
  EXPECT_EQ(load.offset[0], 24);
  EXPECT_FALSE(ParseUsdtArgument("4@$3", &load));
  EXPECT_FALSE(ParseUsdtArgument("3@%eax", &load));
  EXPECT_FALSE(ParseUsdtArgument("8@sym(%rip)", &load));
}
#endif

TEST(Syscalls, NamesBothWays) {
  auto number = SyscallByName("openat");
  ASSERT_TRUE(number);
  EXPECT_EQ(SyscallName(*number), "openat");
  EXPECT_FALSE(SyscallByName("opnat"));
  EXPECT_EQ(SyscallName(99999), "syscall_99999");
  EXPECT_EQ(ErrnoName(13), "EACCES");
}

}  // namespace
}  // namespace brink::snap
