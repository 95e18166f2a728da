#include "elf/file.h"

#include <zlib.h>

#include "elf/eh_frame.h"
#include "elf/symbols.h"
#include "elf_builder.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::elf {
namespace {

using testing::HasSubstr;
using testing_elf::AddSymbols;
using testing_elf::BuildIdNote;
using testing_elf::ElfBuilder;
using testing_elf::PutValue;
using testing_support::IsOk;
using testing_support::StatusIs;

std::string Deflated(const std::string& text) {
  std::string stored(compressBound(text.size()), '\0');
  uLongf size = stored.size();
  compress2(reinterpret_cast<Bytef*>(stored.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(), 9);
  stored.resize(size);
  return stored;
}

std::string CompressedSection(const std::string& text, uint64_t claimed) {
  std::string bytes;
  PutValue<uint32_t>(bytes, ELFCOMPRESS_ZLIB);
  PutValue<uint32_t>(bytes, 0);
  PutValue<uint64_t>(bytes, claimed);
  PutValue<uint64_t>(bytes, 1);
  return bytes + Deflated(text);
}

// One of each: everything that the readers look for.
ElfBuilder Sample() {
  ElfBuilder elf;
  elf.Load(0, 0, 0x700, PF_R);
  elf.Load(0x740, 0x1740, 0x400, PF_R | PF_X);
  elf.Add({.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = 0x1740, .bytes = std::string(64, '\x90')});
  elf.Add({.name = ".note.gnu.build-id", .type = SHT_NOTE, .flags = SHF_ALLOC, .bytes = BuildIdNote("\x01\x02\xab")});
  elf.Add({.name = ".gnu_debuglink", .bytes = std::string("app.debug\0\0\0\x78\x56\x34\x12", 16)});
  elf.Add({.name = ".debug_str", .flags = SHF_COMPRESSED, .bytes = CompressedSection("hello, world", 12)});
  AddSymbols(elf, {{"alpha", 0x1740, 16}, {"beta@@VERS_1", 0x1750, 16}});
  return elf;
}

TEST(ElfFile, ReadsHeadersAndSections) {
  auto file = File::FromBytes(Sample().Build());
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->is64());
  EXPECT_TRUE(file->position_independent());
  EXPECT_EQ(file->machine(), EM_X86_64);
  ASSERT_NE(file->FindSection(".text"), nullptr);
  EXPECT_EQ(file->FindSection(".text")->addr, 0x1740u);
  EXPECT_EQ(file->FindSection(".absent"), nullptr);
}

TEST(ElfFile, ReadsBuildIdAndDebugLink) {
  auto file = File::FromBytes(Sample().Build());
  EXPECT_EQ(file->BuildId(), "\x01\x02\xab");
  auto link = file->debug_link();
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->name, "app.debug");
  EXPECT_EQ(link->crc, 0x12345678u);
}

TEST(ElfFile, DebugLinkWithAFolderIsIgnored) {
  ElfBuilder elf;
  elf.Add({.name = ".gnu_debuglink", .bytes = std::string("../etc/x\0\0\0\0\x78\x56\x34\x12", 16)});
  EXPECT_FALSE(File::FromBytes(elf.Build())->debug_link().has_value());
}

TEST(ElfFile, DecompressesSections) {
  auto file = File::FromBytes(Sample().Build());
  auto bytes = file->ReadSection(".debug_str");
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(*bytes, "hello, world");
}

TEST(ElfFile, RefusesAnImplausibleCompressedSize) {
  ElfBuilder elf;
  elf.Add({.name = ".debug_str", .flags = SHF_COMPRESSED, .bytes = CompressedSection("hello, world", uint64_t{1} << 40)});
  EXPECT_THAT(File::FromBytes(elf.Build())->ReadSection(".debug_str"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("claims 1099511627776")));
}

TEST(ElfFile, ReportsACompressedSectionOfTheWrongLength) {
  for (uint64_t claimed : {11, 13}) {
    ElfBuilder elf;
    elf.Add({.name = ".debug_str", .flags = SHF_COMPRESSED, .bytes = CompressedSection("hello, world", claimed)});
    EXPECT_THAT(File::FromBytes(elf.Build())->ReadSection(".debug_str"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  }
}

TEST(ElfFile, SegmentsThatShareAFilePageAreToldApart) {
  auto file = File::FromBytes(Sample().Build());
  // lld: the executable segment lies at p_offset 0x740, vaddr 0x1740, and is mapped from page 0 of the file.
  EXPECT_EQ(file->OffsetToVaddr(0x750), 0x1750u);
  EXPECT_EQ(file->OffsetToVaddr(0x100), 0x100u);
  EXPECT_EQ(file->VaddrToOffset(0x1750), 0x750u);
  EXPECT_EQ(file->VaddrToOffset(0x9000), std::nullopt);
  EXPECT_EQ(file->LoadBias(0x555500001000, 0), 0x555500000000u);
  EXPECT_EQ(file->LoadBias(0x555500000000, 0, /*executable=*/false), 0x555500000000u);
  EXPECT_EQ(file->LoadBias(0x555500000000, 0x5000), std::nullopt);
  EXPECT_EQ(file->FirstLoadVaddr(), 0u);
}

TEST(ElfFile, ReadsSymbolsWithoutVersions) {
  auto file = File::FromBytes(Sample().Build());
  auto table = ReadSymbols(*file, SymbolSource::kSymtab);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->symbols.size(), 3u);
  EXPECT_EQ(table->NameOf(table->symbols[1]), "alpha");
  EXPECT_EQ(table->NameOf(table->symbols[2]), "beta");
  EXPECT_EQ(table->symbols[2].value, 0x1750u);
  EXPECT_THAT(ReadSymbols(*file, SymbolSource::kDynsym), StatusIs(absl::StatusCode::kNotFound, HasSubstr(".dynsym")));
}

TEST(ElfFile, PltStubsAreNamedByTheSlotTheyJumpThrough) {
  ElfBuilder elf;
  std::string plt = std::string("\xff\x35\x00\x00\x00\x00\xff\x25\x00\x00\x00\x00\x0f\x1f\x40\x00", 16);  // PLT0
  plt += std::string("\xf3\x0f\x1e\xfa\xff\x25", 6);
  plt.resize(32);
  const uint32_t displacement = 0x4018 - (0x1010 + 10), chosen = 0x4020 - (0x1020 + 6);
  std::memcpy(plt.data() + 16 + 6, &displacement, 4);
  plt += std::string("\xff\x25", 2);
  plt.resize(48);
  std::memcpy(plt.data() + 32 + 2, &chosen, 4);
  elf.Add({.name = ".plt", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = 0x1000, .bytes = plt});
  std::string rela;
  PutValue<uint64_t>(rela, 0x4018);
  PutValue<uint64_t>(rela, ELF64_R_INFO(uint64_t{1}, R_X86_64_JUMP_SLOT));
  PutValue<uint64_t>(rela, 0);
  PutValue<uint64_t>(rela, 0x4020);
  PutValue<uint64_t>(rela, ELF64_R_INFO(uint64_t{0}, R_X86_64_IRELATIVE));
  PutValue<uint64_t>(rela, 0x9d700);
  elf.Add({.name = ".rela.plt", .type = SHT_RELA, .flags = SHF_ALLOC, .bytes = rela});
  AddSymbols(elf, {{"memcpy@GLIBC_2.14", 0, 0}}, /*dynamic=*/true);
  auto plt_entries = ReadPlt(*File::FromBytes(elf.Build()));
  ASSERT_EQ(plt_entries.size(), 2u);
  EXPECT_EQ(plt_entries[0].vaddr, 0x1010u);
  EXPECT_EQ(plt_entries[0].name, "memcpy@plt");
  EXPECT_EQ(plt_entries[1].vaddr, 0x1020u);
  EXPECT_EQ(plt_entries[1].name, "*ABS*+0x9d700@plt");
}

TEST(EhFrame, ReadsExtentsAndCountsDamage) {
  std::string frame;
  PutValue<uint32_t>(frame, 20);  // CIE: length, id, version, "zR", code/data alignment, register, augmentation
  PutValue<uint32_t>(frame, 0);
  frame += std::string("\x01zR\0\x01\x78\x10\x01\x1b", 9);
  frame.resize(24);
  PutValue<uint32_t>(frame, 16);  // FDE
  PutValue<uint32_t>(frame, 28);  // distance from here to the CIE at 0
  PutValue<int32_t>(frame, 0x1740 - (0x3000 + 32));
  PutValue<uint32_t>(frame, 0x30);
  frame.resize(44);
  PutValue<uint32_t>(frame, 12);  // FDE whose CIE lies before the section
  PutValue<uint32_t>(frame, 0x5000);
  frame.resize(60);
  PutValue<uint32_t>(frame, 0);
  ElfBuilder elf;
  elf.Add({.name = ".eh_frame", .flags = SHF_ALLOC, .addr = 0x3000, .bytes = frame});
  auto table = ReadFdeExtents(*File::FromBytes(elf.Build()));
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->extents.size(), 1u);
  EXPECT_EQ(table->extents[0].start, 0x1740u);
  EXPECT_EQ(table->extents[0].size, 0x30u);
  EXPECT_EQ(table->damaged, 1u);
}

void ReadEverything(const File& file) {
  (void)file.BuildId();
  (void)file.debug_link();
  for (const Section& section : file.sections()) (void)file.ReadSection(section);
  (void)ReadSymbols(file, SymbolSource::kSymtab);
  (void)ReadSymbols(file, SymbolSource::kDynsym);
  (void)ReadFdeExtents(file);
  (void)ReadPlt(file);
  (void)file.OffsetToVaddr(0x750);
  (void)file.LoadBias(0x1000, 0);
}

TEST(ElfHostile, TruncationAtEvery64BytesNeverCrashes) {
  std::string whole = Sample().Build();
  size_t opened = 0;
  for (size_t size = 0; size <= whole.size(); size += 64) {
    auto file = File::FromBytes(whole.substr(0, size));
    if (!file.ok()) continue;
    ++opened;
    ReadEverything(*file);
  }
  EXPECT_GT(opened, 10u);
}

TEST(ElfHostile, EveryByteSetToOnesNeverCrashes) {
  std::string whole = Sample().Build();
  int opened = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = '\xff';
    auto file = File::FromBytes(changed);
    if (!file.ok()) continue;
    ++opened;
    ReadEverything(*file);
  }
  EXPECT_GT(opened, 0);
}

TEST(ElfHostile, OtherFilesAreRefusedWithAReason) {
  EXPECT_THAT(File::FromBytes("#!/bin/sh\n"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not an ELF file")));
  EXPECT_THAT(File::FromBytes(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not an ELF file")));
  EXPECT_THAT(File::Open("/dev/null"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(File::Open("/nonexistent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

TEST(ElfSecondImplementation, AgreesWithReadelfOnTheBrinkBinary) {
  auto result = testing_support::Run({"readelf", "-n", testing_support::BrinkBinary()});
  if (result.status != 0) GTEST_SKIP() << "needs readelf";
  auto file = File::Open(testing_support::BrinkBinary());
  ASSERT_THAT(file, IsOk());
  auto id = file->BuildId();
  if (!id) GTEST_SKIP() << "the binary has no build id";
  std::string hex;
  for (unsigned char c : *id) hex += absl::StrFormat("%02x", c);
  EXPECT_THAT(result.out, HasSubstr("Build ID: " + hex));
}

}  // namespace
}  // namespace brink::elf
