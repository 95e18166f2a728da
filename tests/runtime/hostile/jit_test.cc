// What a process may put into /tmp about code that it made itself.
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <absl/strings/str_format.h>

#include "limits.h"
#include "made_recording.h"

namespace brink::hostile {
namespace {

using exporter::MadeRecording;
using testing::HasSubstr;

constexpr uint64_t kCode = 0x200000000000;
constexpr uint32_t kFirst = 0x7ff00000;  // no process has such an id

// `codes` functions of one byte, called f.
std::string Jitdump(uint64_t codes) {
  const uint32_t head[] = {0x4A695444, 1, 40, 62, 0, kFirst, 0, 0, 0, 0};
  std::string text(reinterpret_cast<const char*>(head), sizeof(head));
  for (uint64_t i = 0; i < codes; ++i) {
    const uint32_t record[] = {0, 16 + 8 + 32 + 2 + 1, 0, 0, kFirst, kFirst};
    const uint64_t code[] = {kCode + i, kCode + i, 1, i};
    text.append(reinterpret_cast<const char*>(record), sizeof(record)).append(reinterpret_cast<const char*>(code), sizeof(code)).append("f\0\xc3", 3);
  }
  return text;
}

struct Removed {
  std::string path;
  ~Removed() { unlink(path.c_str()); }
};

// Five million names each of three processes, a jitdump of a million functions, and one of 4 GiB of nothing.
TEST(Jit, MillionsOfNames) {
  testing_support::TempDir dir;
  const std::string data = dir.File("it.data"), dumps[] = {dir.File("jit-1.dump"), dir.File("jit-2.dump")};
  std::ofstream(dumps[0], std::ios::binary) << Jitdump(1'000'000);
  std::ofstream(dumps[1], std::ios::binary) << Jitdump(1);
  ASSERT_EQ(truncate(dumps[1].c_str(), int64_t{4} << 30), 0);
  std::string lines;
  for (uint64_t i = 0; i < 5'000'000; ++i) absl::StrAppendFormat(&lines, "%x 1 name\n", 0x100000000000 + i);
  absl::StrAppendFormat(&lines, "%x 1000000 the_last\n", kCode);
  std::vector<Removed> maps;
  maps.reserve(3);
  {
    MadeRecording recording(data);
    for (uint32_t i = 0; i < 3; ++i) {
      maps.push_back({"/tmp/perf-" + std::to_string(kFirst + i) + ".map"});
      std::ofstream(maps.back().path, std::ios::binary) << lines;
      recording.Map(kFirst + i, kCode, 0x1000000, 0, "//anon", "");
      if (i < 2) recording.Map(kFirst + i, 0x7f0000000000, 0x1000, 0, dumps[i], "");
      recording.Sample(kFirst + i, {{kCode + 0x10, kCode + 0x20, Kind::kJump, 0}, {kCode + 0x30, kCode + 0x10, Kind::kJump, 1}}, {.ip = kCode + 0x10});
    }
  }
  auto report = Harmless({"report", "-i", data, "-t", "functions"});
  EXPECT_THAT(report.out, HasSubstr("the_last"));
  Harmless({"script", "-i", data, "-F", "ip,brstacksym"});
  Harmless({"report", "-i", data, "-t", "branches,lines,blocks"});
}

}  // namespace
}  // namespace brink::hostile
