// Files that are larger, deeper or longer than they can be.
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "limits.h"
#include "made_recording.h"

namespace brink::hostile {
namespace {

using exporter::kBias;
using exporter::kLoopAndCall;
using exporter::MadeRecording;
using exporter::Moved;
using testing::HasSubstr;


class Files : public testing::Test, protected exporter::MadeProgram {
 protected:
  // A recording in which `program` ran.
  void Record(const std::string& build_id = exporter::kBuildId) {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_, build_id);
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  void LookAtEverything() {
    Harmless({"report", "-i", data_, "-t", "branches,functions,lines,calls,blocks,loops"});
    Harmless({"annotate", "-i", data_, "-n", "10", "--all", "f"});
    Harmless({"script", "-i", data_, "-F", "ip,brstacksym"});
    Harmless({"report", "-i", data_, "--html", dir_.File("page.html")});
    Harmless({"export", "-i", data_, "-f", "bolt", "-b", program_});
  }
};

// Makes the sections from `first` on (the name table apart) end at 4 GiB, and the file a hole up to there.
void StretchSections(const std::string& path, std::string bytes, size_t first) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint64_t whole = uint64_t{4} << 30;
  for (size_t i = first; i + 1 < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* place = bytes.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, place, sizeof section);
    section.sh_size = whole - section.sh_offset;
    std::memcpy(place, &section, sizeof section);
  }
  std::ofstream(path, std::ios::binary) << bytes;
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(whole)), 0);
}

// Every section of the file is stretched over a hole of 4 GiB.
TEST_F(Files, FourGibibytesOfHoles) {
  exporter::WriteProgram(program_);
  auto text = ReadFile(program_);
  ASSERT_THAT(text, testing_support::IsOk());
  StretchSections(program_, *text, 1);
  Record();
  LookAtEverything();
}

// The same with sections that debuggers read, beside good symbols.
TEST_F(Files, DebugInformationOfFourGibibytesOfHoles) {
  using namespace elf::testing_elf;
  ElfBuilder builder;
  builder.Load(0xb0, 0x10b0, 0x400, PF_R | PF_X);
  builder.Add({.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = 0x10b0, .bytes = std::string(0x400, '\x90')});
  builder.Add({.name = ".note.gnu.build-id", .type = SHT_NOTE, .flags = SHF_ALLOC, .bytes = BuildIdNote(exporter::kBuildId)});
  AddSymbols(builder, {{"f", 0x1100, 0x80}, {"g", 0x1180, 0x80}});
  const uint32_t first_debug = static_cast<uint32_t>(builder.sections.size()) + 1;
  for (const char* name : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_line_str", ".debug_addr", ".debug_rnglists", ".debug_ranges", ".debug_str_offsets", ".eh_frame"})
    builder.Add({.name = name, .bytes = std::string(64, '\0')});
  StretchSections(program_, builder.Build(), first_debug);
  Record();
  LookAtEverything();
  EXPECT_THAT(Harmless({"report", "-i", data_, "-t", "functions"}).out, HasSubstr("f  ")) << "the symbols are as good as before";
}

// Zeros compress to a thousandth: sections that expand as far as zlib can, and one that claims more.
TEST_F(Files, CompressedSectionsThatExplode) {
  using namespace elf::testing_elf;
  const std::string zeros(64 << 20, '\0');
  uLongf size = compressBound(zeros.size());
  std::string small(size, '\0');
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(small.data()), &size, reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 9), Z_OK);
  small.resize(size);
  auto section = [&](uint64_t claimed) {
    Elf64_Chdr header = {};
    header.ch_type = ELFCOMPRESS_ZLIB;
    header.ch_size = claimed;
    header.ch_addralign = 1;
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + small;
  };
  ElfBuilder builder;
  builder.Load(0xb0, 0x10b0, 0x400, PF_R | PF_X);
  builder.Add({.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = 0x10b0, .bytes = std::string(0x400, '\x90')});
  builder.Add({.name = ".note.gnu.build-id", .type = SHT_NOTE, .flags = SHF_ALLOC, .bytes = BuildIdNote(exporter::kBuildId)});
  AddSymbols(builder, {{"f", 0x1100, 0x80}});
  for (const char* name : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_line_str", ".debug_addr", ".debug_rnglists"})
    builder.Add({.name = name, .flags = SHF_COMPRESSED, .bytes = section(zeros.size())});
  builder.Add({.name = ".debug_str", .flags = SHF_COMPRESSED, .bytes = section(uint64_t{1} << 40)});
  std::ofstream(program_, std::ios::binary) << builder.Build();
  Record();
  LookAtEverything();
}

// Functions that are each other's origin, inlined into themselves a thousand deep.
constexpr const char* kCyclic = R"(
  .text
  .globl f
  .type f, @function
f: .fill 0x80, 1, 0x90
  ret
  .size f, .-f
  .section .debug_abbrev,"",@progbits
  .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0
  .byte 2, 0x2e, 1, 0x31, 0x13, 0x47, 0x13, 0x11, 1, 0x12, 7, 0, 0
  .byte 3, 0x1d, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0x58, 0xb, 0x59, 0xb, 0, 0
  .byte 0
  .section .debug_info,"",@progbits
start:
  .long end - begin
begin:
  .short 4
  .long 0
  .byte 8
  .byte 1
  .quad f, 0x81
  .string "cyclic.c"
a: .byte 2
  .long b - start, a - start
  .quad f, 0x81
  .rept 1000
  .byte 3
  .long a - start
  .quad f, 0x81
  .byte 1, 1
  .endr
  .fill 1000, 1, 0
  .byte 0
b: .byte 2
  .long a - start, b - start
  .quad f, 0x81
  .byte 0
  .byte 0
end:
)";

TEST_F(Files, DebugInformationInCircles) {
  std::ofstream(dir_.File("cyclic.s")) << kCyclic;
  auto built = testing_support::Run({"gcc", "-shared", "-nostdlib", "-Wl,--build-id=none", "-o", program_, dir_.File("cyclic.s")});
  if (built.status == 127) GTEST_SKIP() << "needs gcc";
  ASSERT_EQ(built.status, 0) << built.err;
  {
    MadeRecording recording(data_);
    recording.Name(7, "made");
    recording.Map(7, kBias, 0x10000, 0, program_, "");
    recording.Sample(7, Moved({{0x1070, 0x1004, Kind::kJump, 0}, {0x1060, 0x1010, Kind::kJump, 0}}, kBias));
  }
  LookAtEverything();
}

void Patch(const std::string& path, uint64_t offset, uint64_t value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

// Counts and sizes of 2^32 and more wherever a recording has some.
TEST_F(Files, RecordingsThatClaimFourBillionOfEverything) {
  exporter::WriteProgram(program_);
  const auto values = {uint64_t{1} << 32, (uint64_t{1} << 32) - 1, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63};
  // Header: attribute size, then offsets and sizes of attributes, data and event types; places of the features.
  for (uint64_t offset : {16u, 24u, 32u, 40u, 48u, 56u, 64u}) {
    for (uint64_t value : values) {
      Record();
      Patch(data_, offset, value);
      Harmless({"report", "-i", data_});
    }
  }
  Record();
  auto bytes = ReadFile(data_);
  ASSERT_THAT(bytes, testing_support::IsOk());
  // The number of entries of the one stack, and the size of every feature section.
  const std::string count("\4\0\0\0\0\0\0\0", 8);
  const auto first_entry = kBias + 0x1190;
  const size_t at = bytes->find(count + std::string(reinterpret_cast<const char*>(&first_entry), 8));
  ASSERT_NE(at, std::string::npos);
  for (uint64_t value : values) {
    Record();
    Patch(data_, at, value);
    EXPECT_EQ(Harmless({"report", "-i", data_}).status, 3) << "its one record is lost";
    EXPECT_EQ(Harmless({"script", "-i", data_}).status, 3);
  }
  uint64_t data_end;
  {
    uint64_t data_offset, data_size;
    std::memcpy(&data_offset, bytes->data() + 40, 8);
    std::memcpy(&data_size, bytes->data() + 48, 8);
    data_end = data_offset + data_size;
  }
  for (uint64_t section = 0; section < 8; ++section) {
    for (uint64_t value : values) {
      Record();
      Patch(data_, data_end + section * 16 + 8, value);
      Harmless({"report", "-i", data_});
    }
  }
}

// A process that maps code a million times: beside each other, over each other, in a million processes.
class Mappings : public Files, public testing::WithParamInterface<const char*> {};

TEST_P(Mappings, AMillion) {
  exporter::WriteProgram(program_);
  const std::string how = GetParam();
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    for (uint32_t i = 0; i < 1'000'000; ++i) {
      const uint32_t pid = how == "OfAMillionProcesses" ? 100 + i : 7;
      const uint64_t start = how == "BesideEachOther" ? 0x7f0000000000 + uint64_t{i} * 0x2000 : how == "EachBelowTheOther" ? 0x7f0000000000 - uint64_t{i} * 0x2000 : how == "OfAMillionFiles" ? 0x7f0000000000 + uint64_t{i} * 0x1000 : 0x7f0000000000 + uint64_t{i % 1000} * 0x800;
      recording.Map(pid, start, 0x1000, 0, how == "OfAMillionFiles" ? "/tmp/" + std::to_string(i) : program_, how == "OfAMillionFiles" ? "" : exporter::kBuildId);
    }
    recording.Sample(7, Moved(kLoopAndCall, kBias));
  }
  EXPECT_THAT(Harmless({"report", "-i", data_, "-t", "functions"}).out, HasSubstr("f  "));
  // It follows mappings by perf's rules, in tables of its own.
  if (how.starts_with("OfAMillion") || how == "OverEachOther") Harmless({"script", "-i", data_, "-F", "ip,brstacksym"});
}

INSTANTIATE_TEST_SUITE_P(Where, Mappings, testing::Values("BesideEachOther", "EachBelowTheOther", "OverEachOther", "OfAMillionProcesses", "OfAMillionFiles"), [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace brink::hostile
