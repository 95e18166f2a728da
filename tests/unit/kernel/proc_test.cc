#include "kernel/proc_maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"
#include "base/strings.h"
#include "kernel/build_id.h"
#include "kernel/proc_kernel.h"
#include "kernel/proc_task.h"
#include "support/process.h"

namespace brink {
namespace {

TEST(ParseMapsLine, ReadsEveryField) {
  auto map = ParseMapsLine("7f1200000000-7f1200021000 r-xs 0000a000 fe:01 1234567                    /usr/lib/a b.so (deleted)");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->start, 0x7f1200000000u);
  EXPECT_EQ(map->end, 0x7f1200021000u);
  EXPECT_EQ(map->offset, 0xa000u);
  EXPECT_TRUE(map->readable && map->executable && map->shared && !map->writable);
  EXPECT_EQ(map->major, 0xfeu);
  EXPECT_EQ(map->inode, 1234567u);
  EXPECT_EQ(map->path, "/usr/lib/a b.so (deleted)");
}

TEST(ParseMapsLine, AnonymousMemoryHasNoName) {
  auto map = ParseMapsLine("00400000-00401000 rwxp 00000000 00:00 0 ");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->path, "");
}

TEST(ParseMapsLine, UndoesTheKernelsEscapeOfNewlines) {
  EXPECT_EQ(ParseMapsLine("1000-2000 r--p 0 00:01 5 /a\\012b")->path, "/a\nb");
}

TEST(ParseMapsLine, RefusesOtherText) {
  for (const char* line : {"", "x", "1000-", "2000-1000 r-xp 0 0:0 0", "1000-2000 r-x", "1000-2000 r-xp zz 0:0 0", "1000-2000 r-xp 0 0:0 0x"}) {
    EXPECT_FALSE(ParseMapsLine(line)) << line;
  }
}

TEST(ReadMaps, FindsOurOwnCode) {
  auto maps = ReadMaps(getpid());
  ASSERT_TRUE(maps.ok());
  uint64_t here = reinterpret_cast<uint64_t>(&ParseMaps);
  bool found = false;
  for (const Mapping& map : *maps) found |= map.executable && map.start <= here && here < map.end;
  EXPECT_TRUE(found);
}

TEST(ParseTaskStat, ACommMayHoldAnything) {
  auto stat = ParseTaskStat("77 (a) R (b) S 5 77 77 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 3 0 1234 1 2 3\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->id, 77);
  EXPECT_EQ(stat->comm, "a) R (b");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 5);
  EXPECT_EQ(stat->user_ticks, 250u);
  EXPECT_EQ(stat->system_ticks, 50u);
  EXPECT_EQ(stat->start_ticks, 1234u);
  EXPECT_FALSE(stat->kernel_thread);
  EXPECT_TRUE(ParseTaskStat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0")->kernel_thread);
  EXPECT_FALSE(ParseTaskStat("77 (a S 5"));
  EXPECT_FALSE(ParseTaskStat("77 (a) S 5 6"));
}

TEST(ReadTaskStat, SaysThatAProcessIsGone) {
  EXPECT_TRUE(ReadTaskStat(getpid()).ok());
  EXPECT_EQ(ReadTaskStat(0x3ffffff).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*ProcessOfThread(getpid()), getpid());
}

TEST(ParseBusyTime, LeavesOutIdleWaitingAndStolenTime) {
  const char* text = "cpu  9 9 9 9 9 9 9 9\ncpu0 10 1 5 1000 70 2 3 900 0 0\ncpu1 100 0 0 0 0 0 0 0\nintr 5\n";
  BusyTime busy = ParseBusyTime(text, {0});
  EXPECT_EQ(busy.user_ns, 110'000'000u);
  EXPECT_EQ(busy.system_ns, 100'000'000u);
  EXPECT_EQ(ParseBusyTime(text, {}).user_ns, 1'110'000'000u);
}

TEST(FindKernelText, TakesTheFirstSymbolOfTheText) {
  auto text = FindKernelText("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff82000fff T _etext\n");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->start, 0xffffffff81000000u);
  EXPECT_EQ(text->end, 0xffffffff82000fffu);
  EXPECT_EQ(text->symbol, "_text");
  EXPECT_EQ(FindKernelText("ffff800080010000 T _stext\nffff800081000000 D _etext\n")->symbol, "_stext");
  EXPECT_FALSE(FindKernelText("0000000000000000 T _text\n0000000000000000 T _etext\n"));  // kptr_restrict
}

TEST(ParseModules, SkipsHiddenAddresses) {
  auto modules = ParseModules("nvme 65536 2 - Live 0xffffffffc0200000\nloop 32768 0 - Live 0x0000000000000000 (O)\n");
  ASSERT_EQ(modules.size(), 1u);
  EXPECT_EQ(modules[0].name, "nvme");
  EXPECT_EQ(modules[0].size, 65536u);
  EXPECT_EQ(modules[0].start, 0xffffffffc0200000u);
}

std::string Note(uint32_t type, std::string name, std::string body) {
  uint32_t words[3] = {static_cast<uint32_t>(name.size() + 1), static_cast<uint32_t>(body.size()), type};
  std::string note(reinterpret_cast<char*>(words), sizeof(words));
  note += name + '\0';
  note.resize((note.size() + 3) & ~3u);
  note += body;
  note.resize((note.size() + 3) & ~3u);
  return note;
}

std::string IdIn(const std::string& notes) { return BuildIdInNotes(std::as_bytes(std::span(notes.data(), notes.size()))); }

TEST(BuildIdInNotes, FindsTheIdAmongOthers) {
  EXPECT_EQ(IdIn(Note(1, "GNU", "abcd") + Note(3, "GNU", "0123456789")), "0123456789");
  EXPECT_EQ(IdIn(Note(3, "XYZ", "0123456789")), "");
}

TEST(BuildIdInNotes, SurvivesSizesThatLie) {
  std::string note = Note(3, "GNU", "0123456789");
  EXPECT_EQ(IdIn(note.substr(0, note.size() - 4)), "");
  for (size_t at : {0, 4}) {
    std::string bad = note;
    std::memset(bad.data() + at, 0xff, 4);
    EXPECT_EQ(IdIn(bad), "");
  }
  EXPECT_EQ(IdIn(Note(3, "GNU", std::string(64, 'x'))), "");  // longer than any id
}

TEST(ReadBuildId, AgreesWithReadelf) {
  std::string own = HexEncode(ReadBuildId("/bin/sh"));
  auto shell = testing_support::Run({"readelf", "-n", "/bin/sh"});
  if (shell.status != 0) GTEST_SKIP() << "needs readelf";
  ASSERT_FALSE(own.empty());
  EXPECT_NE(shell.out.find("Build ID: " + own), std::string::npos) << shell.out;
}

TEST(ReadBuildId, NeverOpensWhatIsNoFile) {
  EXPECT_EQ(ReadBuildId("/dev/zero"), "");
  EXPECT_EQ(ReadBuildId("/no/such/file"), "");
  EXPECT_EQ(ReadBuildId("/etc/passwd"), "");
}

}  // namespace
}  // namespace brink
