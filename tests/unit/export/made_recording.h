// A made-up program and recordings of it, in which every address is known.
//
// The program is laid out as lld does it: text at vaddr 0x10b0 in file offset 0xb0, so headers and text share a file
// page and the mapping of the text has page offset 0. Functions: f [0x1100, 0x1180), g [0x1180, 0x1200), h [0x1200, 0x1280).
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/branch.h"
#include "elf_builder.h"
#include "perfdata/features.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::exporter {

inline constexpr char kBuildId[] = "\xab\xcd\xef\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11";
inline constexpr uint64_t kTextVaddr = 0x10b0, kTextOffset = 0xb0, kTextSize = 0x400;

struct ProgramOptions {
  std::string build_id = kBuildId;
  std::vector<elf::testing_elf::BuiltSymbol> symbols = {{"f", 0x1100, 0x80}, {"g", 0x1180, 0x80}, {"h", 0x1200, 0x80}};
  uint64_t vaddr = kTextVaddr;
  bool executable_type = false;  // ET_EXEC
  std::string text = std::string(kTextSize, '\x90');
};

inline void WriteProgram(const std::string& path, const ProgramOptions& options = {}) {
  using namespace elf::testing_elf;
  ElfBuilder builder;
  builder.Load(0, options.vaddr - kTextVaddr, kTextOffset, PF_R);
  builder.Load(kTextOffset, options.vaddr, options.text.size(), PF_R | PF_X);
  builder.Add({.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .addr = options.vaddr, .bytes = options.text});
  if (!options.build_id.empty()) builder.Add({.name = ".note.gnu.build-id", .type = SHT_NOTE, .flags = SHF_ALLOC, .bytes = BuildIdNote(options.build_id)});
  AddSymbols(builder, options.symbols);
  std::string bytes = builder.Build();
  if (options.executable_type) bytes[16] = ET_EXEC;
  std::ofstream(path, std::ios::binary) << bytes;
}

struct Step {
  uint64_t from, to;
  Kind kind = Kind::kCond;
  int predicted = -1;  // -1 unknown, 0 mispredicted, 1 predicted
  Spec spec = Spec::kNa;
};

// Where the program may run.
inline constexpr uint64_t kBias = 0x555500000000, kOtherBias = 0x7f1200300000;
// f loops once and calls g, g returns into f: straight code 1100-1110, 1104-1120, 1180-1190.
inline const std::vector<Step> kLoopAndCall = {{0x1190, 0x1125, Kind::kRet, 0}, {0x1120, 0x1180, Kind::kCall, 1}, {0x1110, 0x1104, Kind::kCond, 0}, {0x1250, 0x1100, Kind::kCall, 1}};

// A folder with the program, and the place of a recording of it.
struct MadeProgram {
  MadeProgram() { WriteProgram(program_); }
  testing_support::TempDir dir_;
  std::string program_ = dir_.File("made"), data_ = dir_.File("made.data");
};

// Stacks are given newest first, as perf has them.
class MadeRecording {
 public:
  explicit MadeRecording(const std::string& path, perfdata::WriterOptions options = Defaults()) {
    auto sink = perfdata::OpenFileSink(path);
    EXPECT_THAT(sink, testing_support::IsOk());
    auto writer = perfdata::Writer::Create(*std::move(sink), std::move(options));
    EXPECT_THAT(writer, testing_support::IsOk());
    writer_ = *std::move(writer);
    batch_.emplace(*writer_);
  }
  ~MadeRecording() { Finish(); }

  static perfdata::WriterOptions Defaults() {
    perfdata::WriterOptions options = perfdata::OneEvent();
    options.events[0].notes = perfdata::EventNotes{.source = BRINK_SOURCE_STEP, .direction = BRINK_DIR_PAST, .contiguous = true};
    return options;
  }
  // Stacks that follow their sample, with a note each, and call chains.
  static perfdata::WriterOptions WithChains(bool future) {
    perfdata::WriterOptions options = Defaults();
    options.events[0].attr.sample_type |= perfdata::kSampleCallchain;
    if (future) {
      options.events[0].attr.sample_type |= perfdata::kSampleRaw;
      options.events[0].notes = perfdata::EventNotes{.source = BRINK_SOURCE_WALK, .direction = BRINK_DIR_FUTURE, .contiguous = true, .sample_notes = true};
    }
    return options;
  }
  // As perf records it, with this branch_sample_type.
  static perfdata::WriterOptions AsPerf(uint64_t branch_sample_type) {
    perfdata::WriterOptions options = perfdata::OneEvent();
    options.events[0].attr.branch_sample_type = branch_sample_type;
    return options;
  }

  void Map(uint32_t pid, uint64_t start, uint64_t length, uint64_t page_offset, const std::string& path, const std::string& build_id, uint16_t misc = perfdata::kMiscUser) {
    perfdata::SampleId id{.pid = pid, .tid = pid, .time = ++time_, .id = writer_->id()};
    Add([&](auto out) {
      return writer_->encoder().Mmap2(out, {.misc = misc, .pid = pid, .tid = pid, .start = start, .length = length, .pgoff = page_offset, .build_id = build_id,
                                            .prot = 5, .flags = 2, .filename = path}, id);
    });
  }
  void Name(uint32_t pid, const std::string& comm) {
    perfdata::SampleId id{.pid = pid, .tid = pid, .time = ++time_, .id = writer_->id()};
    Add([&](auto out) { return writer_->encoder().Comm(out, pid, pid, comm, true, id); });
  }
  // The program's text where its link-time address 0 is `bias`.
  void MapProgram(uint32_t pid, uint64_t bias, const std::string& path, const std::string& build_id = kBuildId) {
    Name(pid, "made");
    Map(pid, bias + 0x1000, 0x1000, 0, path, build_id);
  }
  void CgroupPath(uint64_t cgroup, const std::string& path) {
    perfdata::SampleId id{.time = ++time_, .id = writer_->id()};
    Add([&](auto out) { return writer_->encoder().Cgroup(out, cgroup, path, id); });
  }
  struct Extra {
    uint64_t ip = 0;
    std::vector<uint64_t> chain;
    uint64_t end_ip = 0;
    uint16_t flags = 0;
    uint64_t period = 1'000'000;
    uint64_t cgroup = 0;
  };
  void Sample(uint32_t pid, const std::vector<Step>& stack, const Extra& extra) {
    std::vector<brink_branch> branches;
    for (const Step& step : stack) {
      branches.push_back({step.from, step.to, MakeInfo(step.kind) | (step.predicted == 0 ? 1u : 0u) | (step.predicted == 1 ? 2u : 0u) | static_cast<uint64_t>(step.spec) << 24});
    }
    perfdata::SampleNote note;
    note.direction = BRINK_DIR_FUTURE;
    note.source = BRINK_SOURCE_WALK;
    note.flags = extra.flags;
    note.set_end_ip(extra.end_ip);
    perfdata::SampleFields fields{.ip = extra.ip ? extra.ip : stack.empty() ? 0 : stack[0].to, .pid = pid, .tid = pid, .time = ++time_, .id = writer_->id(), .period = extra.period,
                                  .chain = extra.chain, .raw = std::as_bytes(std::span(&note, 1)), .branches = branches, .cgroup = extra.cgroup};
    Add([&](auto out) { return writer_->encoder().Sample(out, fields); });
  }
  void Sample(uint32_t pid, const std::vector<Step>& stack) { Sample(pid, stack, Extra{}); }
  void Finish(std::vector<perfdata::BuildIdEntry> ids = {}) {
    if (!batch_) return;
    EXPECT_THAT(batch_->Flush(), testing_support::IsOk());
    EXPECT_THAT(writer_->Finish(std::move(ids)), testing_support::IsOk());
    batch_.reset();
  }

 private:
  template <typename Encode>
  void Add(Encode encode) {
    EXPECT_THAT(batch_->Add(encode), testing_support::IsOk());
  }
  std::unique_ptr<perfdata::Writer> writer_;
  std::optional<perfdata::RecordBatch> batch_;
  uint64_t time_ = 1000;
};

// The same stack with every address of the program moved to where it runs.
inline std::vector<Step> Moved(std::vector<Step> stack, uint64_t bias) {
  for (Step& step : stack) step.from += bias, step.to += bias;
  return stack;
}

}  // namespace brink::exporter
