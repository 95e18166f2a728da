// What other tools make of recordings that brink wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::ProcessResult;
using testing_support::TempDir;

ProcessResult Shell(const std::vector<std::string>& argv) { return testing_support::Run(argv); }

bool HavePerf() { return Shell({"perf", "--version"}).status == 0; }

struct Shape {
  bool pipe = false;
  int compression = 0;
  size_t events = 1;
  bool chain = false, cgroup = false, notes = false;
  size_t depth = 32;
  int samples = 100;
};

WriterOptions Options(const Shape& shape) {
  EventAttr attr = CpuClockAttr();
  if (shape.chain) attr.sample_type |= kSampleCallchain;
  if (shape.cgroup) {
    attr.sample_type |= kSampleCgroup;
    attr.flags |= kAttrCgroup;
  }
  EventNotes notes{.source = BRINK_SOURCE_WALK, .direction = BRINK_DIR_FUTURE, .contiguous = true, .sample_notes = shape.notes};
  if (shape.notes) attr.sample_type |= kSampleRaw;
  WriterOptions options;
  options.pipe = shape.pipe;
  options.compression_level = shape.compression;
  options.features = CollectHostFeatures();
  options.features.cmdline = {"brink", "record", "--", "demo"};
  options.features.version = "brink 0.1";
  for (size_t i = 0; i < shape.events; ++i) {
    attr.config = i;  // cpu-clock, task-clock
    options.events.push_back({.attr = attr, .name = i == 0 ? "cpu-clock:u" : "task-clock:u", .ids = {10 + i, 20 + i}, .notes = notes});
  }
  return options;
}

const std::string kBuildId(20, '\x5a');

void WriteRecords(Writer& writer, const Shape& shape) {
  RecordBatch batch(writer);
  const RecordEncoder& encoder = writer.encoder();
  SampleId id{.pid = 100, .tid = 100, .time = 1'000, .id = writer.id(), .cpu = 1};
  auto add = [&](auto encode) { EXPECT_THAT(batch.Add(encode), IsOk()); };
  add([&](auto out) { return encoder.Comm(out, 100, 100, "demo", true, id); });
  add([&](auto out) {
    return encoder.Mmap2(out, {.pid = 100, .tid = 100, .start = 0x401000, .length = 0x10000, .pgoff = 0x1000, .build_id = kBuildId,
                               .prot = 5, .flags = 2, .filename = "/usr/bin/demo"}, id);
  });
  if (shape.cgroup) add([&](auto out) { return encoder.Cgroup(out, 42, "/demo.scope", id); });
  add([&](auto out) { return encoder.Fork(out, {.pid = 101, .ppid = 100, .tid = 101, .ptid = 100, .time = 1'500}, id); });
  add([&](auto out) { return RecordEncoder::FinishedInit(out); });
  auto stack = Branches(shape.depth);
  std::vector<uint64_t> chain = {kContextUser, 0x401000, 0x401100};
  SampleNote note;
  for (int i = 0; i < shape.samples; ++i) {
    size_t event = static_cast<size_t>(i) % shape.events;
    add([&](auto out) {
      return writer.encoder(event).Sample(
          out, {.ip = 0x401000u + static_cast<uint64_t>(i), .pid = 100, .tid = 100, .time = 2'000 + 1'000 * static_cast<uint64_t>(i),
                .id = writer.id(event), .cpu = 1, .period = 1, .chain = chain, .raw = std::as_bytes(std::span(&note, 1)),
                .branches = stack, .cgroup = 42});
    });
    if (i % 10 == 9) add([&](auto out) { return RecordEncoder::FinishedRound(out, 2'000 + 1'000 * static_cast<uint64_t>(i)); });
  }
  id.time = 1'000'000'000;
  add([&](auto out) { return encoder.Exit(out, {.pid = 100, .ppid = 1, .tid = 100, .ptid = 1, .time = 3'000'000}, id); });
  EXPECT_THAT(batch.Flush(), IsOk());
}

void WriteRecording(const std::string& path, const Shape& shape) {
  auto sink = OpenFileSink(path);
  ASSERT_THAT(sink, IsOk());
  auto writer = Writer::Create(*std::move(sink), Options(shape));
  ASSERT_THAT(writer, IsOk());
  WriteRecords(**writer, shape);
  ASSERT_THAT((*writer)->Finish({{.build_id = kBuildId, .filename = "/usr/bin/demo"}}), IsOk());
}

// The text that perf prints for the stack of Branches(depth).
std::string StackText(size_t depth) {
  static constexpr const char* kTypes[] = {"", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET", "COND_CALL", "COND_RET", "ERET"};
  std::string out;
  for (const brink_branch& b : Branches(depth)) {
    absl::StrAppendFormat(&out, " 0x%x/0x%x/%c/-/-/%d/%s ", b.from, b.to, b.info & 1 ? 'M' : '-', static_cast<int>(b.info >> 4 & 0xffff),
                          kTypes[b.info >> 20 & 15]);
  }
  return out;
}

class Consumers : public testing::TestWithParam<Shape> {};

TEST_P(Consumers, PerfReadsEverythingWithoutAWarning) {
  if (!HavePerf()) GTEST_SKIP() << "needs perf (package linux-perf)";
  const Shape& shape = GetParam();
  TempDir dir;
  const std::string path = dir.File("brink.data");
  WriteRecording(path, shape);
  // perf reads a stream only from its standard input.
  const std::string in = shape.pipe ? "cat " + path + " | perf " : "perf ";
  const std::string from = shape.pipe ? " -i -" : " -i " + path;

  ProcessResult script = Shell({"sh", "-c", in + "script" + from + " -F ip,brstack"});
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_EQ(script.err, "");
  auto lines = Split(script.out, '\n');
  if (!shape.chain) {
    ASSERT_EQ(lines.size(), static_cast<size_t>(shape.samples) + 1);
  }
  // From a stream perf 6.1 adds the symbol on its own.
  const char* symbol = shape.pipe ? " [unknown]" : "";
  for (int i = 0; i < shape.samples && !shape.chain; ++i) {
    ASSERT_EQ(Trim(lines[static_cast<size_t>(i)]), Trim(absl::StrFormat("%x%s%s", 0x401000 + i, symbol, StackText(shape.depth))));
  }

  ProcessResult header = Shell({"sh", "-c", in + "report --header-only" + from});
  EXPECT_EQ(header.status, 0) << header.err;
  EXPECT_EQ(header.err, "");
  for (const char* text : {"cpu-clock:u", "cmdline : brink record -- demo", "arch : x86_64"}) EXPECT_THAT(header.out, HasSubstr(text));

  ProcessResult report = Shell({"sh", "-c", in + "report --stdio --sort symbol_from,symbol_to" + (shape.pipe ? " -b" : "") + from});
  if (shape.depth != 0) {  // it calls a recording without branches empty
    EXPECT_EQ(report.status, 0) << report.err;
    EXPECT_EQ(report.err, "");
  }

  ProcessResult tasks = Shell({"sh", "-c", in + "script --show-mmap-events --show-task-events" + from});
  EXPECT_EQ(tasks.err, "");
  EXPECT_THAT(tasks.out, HasSubstr("PERF_RECORD_MMAP2 100/100: [0x401000(0x10000) @ 0x1000 <5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a>]: r-xp /usr/bin/demo"));
  EXPECT_THAT(tasks.out, HasSubstr("PERF_RECORD_FORK(101:101):(100:100)"));
  EXPECT_THAT(tasks.out, HasSubstr("PERF_RECORD_EXIT(100:100):(1:1)"));

  if (!shape.pipe) {
    ProcessResult ids = Shell({"perf", "buildid-list", "-i", path});
    EXPECT_EQ(ids.err, "");
    EXPECT_THAT(ids.out, HasSubstr("5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a /usr/bin/demo"));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Consumers,
                         testing::Values(Shape{}, Shape{.pipe = true}, Shape{.compression = 3, .samples = 3000},
                                         Shape{.pipe = true, .compression = 3, .samples = 3000}, Shape{.events = 2},
                                         Shape{.pipe = true, .events = 2}, Shape{.chain = true, .cgroup = true},
                                         Shape{.notes = true}, Shape{.pipe = true, .notes = true},
                                         Shape{.depth = 2048, .samples = 20}, Shape{.cgroup = true, .notes = true, .depth = 0}));

}  // namespace
}  // namespace brink::perfdata
