// The file consumer on sinks that fail in all the ways disks and pipes do; read back by perfdata's reader.
#include "session/file_consumer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "perfdata/reader.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;
using testing_support::TempDir;

// A file with room for `room` bytes, as a full disk has it.
class SmallDisk : public perfdata::Sink {
 public:
  SmallDisk(std::unique_ptr<perfdata::Sink> file, uint64_t* room, int error) : file_(std::move(file)), room_(room), error_(error) {}
  StatusOr<size_t> Write(std::span<const std::byte> bytes) override { return file_->Write(bytes); }
  StatusOr<size_t> PWrite(std::span<const std::byte> bytes, uint64_t offset) override {
    if (offset >= *room_) return ErrnoError(error_, "write");
    return file_->PWrite(bytes.first(std::min<uint64_t>(bytes.size(), *room_ - offset)), offset);
  }
  Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  Status Sync() override { return file_->Sync(); }

 private:
  std::unique_ptr<perfdata::Sink> file_;
  uint64_t* room_;
  int error_;
};

SourceTraits Traits() {
  return {.name = "replay", .id = BRINK_SOURCE_REPLAY, .contiguous = true, .branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY};
}

FileSpec Spec(const std::string& path) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  FileSpec spec;
  spec.path = path;
  spec.events = {MakeFileEvent(attr, "cpu-clock", Traits(), false, false)};
  return spec;
}

struct Sampler {
  std::vector<std::byte> bytes = std::vector<std::byte>(sizeof(brink_sample) + 4 * sizeof(brink_branch));
  SampleView Next(uint32_t nr = 4) {
    bytes.resize(sizeof(brink_sample) + nr * sizeof(brink_branch));
    auto* head = reinterpret_cast<brink_sample*>(bytes.data());
    head->header = {BRINK_REC_SAMPLE, BRINK_ABI_VERSION, static_cast<uint32_t>(bytes.size())};
    head->time_ns = ++time;
    head->tgid = head->tid = 42;
    head->nr = static_cast<uint16_t>(nr);
    return *ViewSample(bytes);
  }
  uint64_t time = 0;
};

struct Contents {
  uint64_t samples = 0, lost = 0;
};

// The types of the records that readers see, in order.
std::vector<uint32_t> Types(const std::string& path) {
  std::vector<uint32_t> types;
  auto reader = perfdata::Reader::Open(path, {});
  EXPECT_THAT(reader, IsOk());
  if (!reader.ok()) return types;
  perfdata::Record record;
  for (auto more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) types.push_back(record.type);
  return types;
}

Contents ReadBack(const std::string& path) {
  Contents contents;
  auto reader = perfdata::Reader::Open(path, {});
  EXPECT_THAT(reader, IsOk());
  if (!reader.ok()) return contents;
  perfdata::Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) break;
    contents.samples += record.sample() != nullptr;
  }
  EXPECT_TRUE((*reader)->stats().complete());
  contents.lost = (*reader)->stats().lost_samples;
  return contents;
}

TEST(FileConsumer, WritesWhatItTakes) {
  TempDir dir;
  auto file = FileConsumer::Create(Spec(dir.File("x.data")), {});
  ASSERT_THAT(file, IsOk());
  Sampler sampler;
  for (int i = 0; i < 1000; ++i) ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
  EXPECT_EQ((*file)->Settle().lost, Loss{});
  ASSERT_THAT((*file)->Finish(), IsOk());
  EXPECT_EQ(ReadBack(dir.File("x.data")).samples, 1000u);
  auto counts = (*file)->counts();
  ASSERT_EQ(counts.threads.size(), 1u);
  EXPECT_EQ(counts.threads[0].samples, 1000u);
  EXPECT_EQ(counts.branches, 4000u);
}

// A PERF_RECORD_MMAP2 of the kernel, as the pipeline hands it over.
std::vector<std::byte> KernelMap() {
  const std::string name = "[kernel.kallsyms]_text";
  std::vector<std::byte> record(72 + 24);
  perf_event_header header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_KERNEL,
                              .size = static_cast<uint16_t>(record.size() + sizeof(SideBandId))};
  std::memcpy(record.data(), &header, sizeof(header));
  std::memset(record.data() + 8, 0xff, 4);
  std::memcpy(record.data() + 72, name.data(), name.size());
  return record;
}

// llvm-profgen takes samples without a stack for a call chain of the first stack, unless another line comes between.
TEST(FileConsumer, SeparatesTheFirstStackFromSamplesWithout) {
  TempDir dir;
  auto file = FileConsumer::Create(Spec(dir.File("x.data")), {});
  ASSERT_THAT(file, IsOk());
  const std::vector<std::byte> map = KernelMap();
  ASSERT_THAT((*file)->OnPerfRecord({.record = map, .id = {}}), IsOk());
  Sampler sampler;
  for (uint32_t nr : {0, 0, 4, 0, 4}) ASSERT_THAT((*file)->OnSample(sampler.Next(nr)), IsOk());
  ASSERT_THAT((*file)->Finish(), IsOk());
  const uint32_t s = PERF_RECORD_SAMPLE, m = PERF_RECORD_MMAP2;
  EXPECT_THAT(Types(dir.File("x.data")), testing::ElementsAre(m, s, s, m, s, s, s));
}

TEST(FileConsumer, AFullDiskLosesExactlyWhatItSays) {
  TempDir dir;
  uint64_t room = 40'000;
  auto open = [&](const std::string& path) -> StatusOr<std::unique_ptr<perfdata::Sink>> {
    ASSIGN_OR_RETURN(auto sink, perfdata::OpenFileSink(path));
    return std::unique_ptr<perfdata::Sink>(new SmallDisk(std::move(sink), &room, ENOSPC));
  };
  auto file = FileConsumer::Create(Spec(dir.File("x.data")), {}, open);
  ASSERT_THAT(file, IsOk());
  Sampler sampler;
  uint64_t lost = 0, lost_bytes = 0;
  for (int batch = 0; batch < 20; ++batch) {
    if (batch == 15) room = UINT64_MAX;  // someone tidied up
    for (int i = 0; i < 100; ++i) ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
    Settled settled = (*file)->Settle();
    ASSERT_THAT(settled.status, IsOk());  // recording goes on
    lost += settled.lost.records;
    lost_bytes += settled.lost.bytes;
  }
  ASSERT_THAT((*file)->Finish(), IsOk());
  EXPECT_TRUE((*file)->disk_was_full());
  Contents contents = ReadBack(dir.File("x.data"));
  EXPECT_GT(lost, 1000u);
  EXPECT_EQ(contents.samples + lost, 2000u);
  EXPECT_EQ(contents.lost, lost);  // and the file itself says so
  EXPECT_EQ(lost_bytes, lost * sampler.bytes.size());
}

TEST(FileConsumer, ABrokenPipeStopsTheSession) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  close(fds[0]);
  signal(SIGPIPE, SIG_IGN);
  FileSpec spec = Spec("-");
  spec.pipe = true;
  auto open = [&](const std::string&) -> StatusOr<std::unique_ptr<perfdata::Sink>> {
    return std::unique_ptr<perfdata::Sink>(new perfdata::FdSink(UniqueFd(fds[1]), "pipe"));
  };
  auto file = FileConsumer::Create(spec, {}, open);
  if (!file.ok()) {  // the header already found no reader: the recording does not begin
    EXPECT_EQ(ErrnoOf(file.status()), EPIPE);
    return;
  }
  Sampler sampler;
  for (int i = 0; i < 100; ++i) ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
  Settled settled = (*file)->Settle();
  EXPECT_FALSE(settled.status.ok());
  EXPECT_EQ(settled.lost.records, 100u);
}

TEST(FileConsumer, TellsWhenTheFileIsAsLargeAsItMayBe) {
  TempDir dir;
  int told = 0;
  FileSpec spec = Spec(dir.File("x.data"));
  spec.max_size = 50'000;
  auto file = FileConsumer::Create(spec, {.size_limit = [&] { ++told; }});
  ASSERT_THAT(file, IsOk());
  Sampler sampler;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
    if (i % 50 == 0) (*file)->Settle();
  }
  EXPECT_EQ(told, 1);
  ASSERT_THAT((*file)->Finish(), IsOk());
}

TEST(FileConsumer, RotatesIntoNumberedFilesAndKeepsTheLast) {
  TempDir dir;
  FileSpec spec = Spec(dir.File("x.data"));
  spec.rotating = true;
  spec.rotate_keep = 2;
  auto file = FileConsumer::Create(spec, {});
  ASSERT_THAT(file, IsOk());
  Sampler sampler;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j <= i; ++j) ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
    if (i == 3) break;
    ASSERT_THAT((*file)->Rotate(), IsOk());
  }
  ASSERT_THAT((*file)->Finish(), IsOk());
  EXPECT_EQ(access(dir.File("x.data.000002").c_str(), F_OK), -1);
  EXPECT_EQ(ReadBack(dir.File("x.data.000003")).samples, 3u);
  EXPECT_EQ(ReadBack(dir.File("x.data.000004")).samples, 4u);
  EXPECT_EQ((*file)->files(), 4u);
}

TEST(FileConsumer, IsWholeAfterEachRoundAndWithoutAnEnd) {
  TempDir dir;
  auto file = FileConsumer::Create(Spec(dir.File("x.data")), {});
  ASSERT_THAT(file, IsOk());
  Sampler sampler;
  for (int i = 0; i < 10; ++i) ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());
  ASSERT_THAT((*file)->OnRound(sampler.time), IsOk());
  ASSERT_THAT((*file)->OnSample(sampler.Next()), IsOk());  // never flushed: a killed collector would lose it
  EXPECT_EQ(ReadBack(dir.File("x.data")).samples, 10u);
}

TEST(FileConsumer, FailsAtOnceWhereTheFileCannotBe) {
  auto file = FileConsumer::Create(Spec("/proc/self/nothing/x.data"), {});
  EXPECT_FALSE(file.ok());
}

}  // namespace
}  // namespace brink
