// bench_perfdata make FILE MEGABYTES [LEVEL [no-cycles]]: a recording of 32-branch stacks, four CPUs drained in rounds.
// bench_perfdata encode: how fast the encoder and the writer are, as a ratio to memcpy.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "perfdata/writer.h"

namespace brink::perfdata {
namespace {

constexpr size_t kDepth = 32;
using Clock = std::chrono::steady_clock;

EventAttr Attr() {
  EventAttr attr;
  attr.type = kTypeSoftware;
  attr.config = kSwCpuClock;
  attr.sample_period = 1'000'000;
  attr.sample_type = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu | kSamplePeriod | kSampleBranchStack;
  attr.branch_sample_type = kBranchUser | kBranchAny | kBranchTypeSave;
  attr.flags = kAttrMmap | kAttrComm | kAttrTask | kAttrSampleIdAll | kAttrMmap2 | kAttrCommExec | kAttrExcludeKernel;
  return attr;
}

// A program of some thousand branches whose stacks overlap, as real ones do.
std::vector<brink_branch> Program(bool cycles = true) {
  std::mt19937_64 random(42);
  std::vector<brink_branch> out(8192);
  uint64_t at = 0x55d0c0401000;
  for (brink_branch& b : out) {
    b.from = at + random() % 64;
    b.to = 0x55d0c0401000 + random() % 0x80000;
    b.info = (random() % 20 == 0 ? 1 : 2) | (random() % 200) << 4 | (1 + random() % 6) << 20;
    if (!cycles) b.info &= ~uint64_t{0xffff0};
    at = b.to;
  }
  return out;
}

class NullSink : public Sink {
 public:
  StatusOr<size_t> Write(std::span<const std::byte> bytes) override { return bytes.size(); }
  StatusOr<size_t> PWrite(std::span<const std::byte> bytes, uint64_t) override { return bytes.size(); }
  Status Truncate(uint64_t) override { return OkStatus(); }
  Status Sync() override { return OkStatus(); }
};

int Fail(const Status& status) {
  std::fprintf(stderr, "bench_perfdata: %s\n", Message(status).c_str());
  return 1;
}

Status WriteSamples(Writer& writer, uint64_t bytes, bool cycles) {
  const auto program = Program(cycles);
  RecordBatch batch(writer);
  const RecordEncoder& encoder = writer.encoder();
  SampleId id{.pid = 1000, .tid = 1000, .time = 1000, .id = writer.id()};
  RETURN_IF_ERROR(batch.Add([&](auto out) { return encoder.Comm(out, 1000, 1000, "bench", true, id); }));
  RETURN_IF_ERROR(batch.Add([&](auto out) {
    return encoder.Mmap2(out, {.pid = 1000, .tid = 1000, .start = 0x55d0c0401000, .length = 0x100000, .pgoff = 0x1000,
                               .build_id = "01234567890123456789", .prot = 5, .flags = 2, .filename = "/usr/bin/bench"}, id);
  }));
  uint64_t i = 0;
  while (writer.written().bytes < bytes) {
    // Each round drains four rings one after the other, so times step back at every ring.
    for (uint32_t cpu = 0; cpu < 4; ++cpu) {
      for (uint64_t k = 0; k < 64; ++k, ++i) {
        SampleFields sample{.ip = program[i % 8000].from, .pid = 1000, .tid = 1000 + cpu, .time = 2000 + (i / 256 * 64 + k) * 1'000'000 + cpu * 1000,
                            .id = writer.id(), .cpu = cpu, .period = 1'000'000, .branches = std::span(program).subspan(i * 7 % 8000, kDepth)};
        RETURN_IF_ERROR(batch.Add([&](auto out) { return encoder.Sample(out, sample); }));
      }
    }
    RETURN_IF_ERROR(batch.Add([](auto out) { return RecordEncoder::FinishedRound(out); }));
  }
  return batch.Flush();
}

int Make(const char* path, uint64_t megabytes, int level, bool cycles) {
  auto sink = OpenFileSink(path);
  if (!sink.ok()) return Fail(sink.status());
  WriterOptions options;
  options.events.push_back({.attr = Attr(), .name = "cpu-clock:u", .ids = {}, .notes = {}});
  options.features = CollectHostFeatures();
  options.compression_level = level;
  auto writer = Writer::Create(*std::move(sink), std::move(options));
  if (!writer.ok()) return Fail(writer.status());
  Status status = WriteSamples(**writer, megabytes << 20, cycles);
  if (status.ok()) status = (*writer)->Finish({{.build_id = "01234567890123456789", .filename = "/usr/bin/bench"}});
  return status.ok() ? 0 : Fail(status);
}

double Seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

int Encode() {
  const auto program = Program();
  std::vector<std::byte> buffer(256 * 1024), copy(256 * 1024);
  RecordEncoder encoder(Attr());
  WriterOptions options;
  options.events.push_back({.attr = Attr(), .name = "cpu-clock:u", .ids = {}, .notes = {}});
  auto writer = Writer::Create(std::make_unique<NullSink>(), options);
  if (!writer.ok()) return Fail(writer.status());
  double best_encode = 1e9, best_copy = 1e9, best_append = 1e9;
  size_t used = 0;
  for (int run = 0; run < 200; ++run) {
    auto start = Clock::now();
    used = 0;
    for (uint64_t i = 0;; ++i) {
      size_t n = encoder.Sample(std::span(buffer).subspan(used), {.ip = i, .pid = 1, .tid = 1, .time = i, .id = 1,
                                                                  .branches = std::span(program).subspan(i * 7 % 8000, kDepth)});
      if (n == 0) break;
      used += n;
    }
    best_encode = std::min(best_encode, Seconds(start));
    start = Clock::now();
    std::memcpy(copy.data(), buffer.data(), used);
    best_copy = std::min(best_copy, Seconds(start));
    start = Clock::now();
    (void)(*writer)->Append(std::span<const std::byte>(buffer).first(used));
    best_append = std::min(best_append, Seconds(start));
  }
  const double gigabytes = static_cast<double>(used) / 1e9;
  std::printf("encode: %.1f GB/s, %.0f ns a 32-branch sample, %.1f times the time of a plain copy\n", gigabytes / best_encode,
              best_encode * 1e9 / (static_cast<double>(used) / static_cast<double>(encoder.SampleSize({.branches = std::span(program).first(kDepth)}))),
              best_encode / best_copy);
  std::printf("append: %.1f GB/s into a sink that takes everything (headers walked, nothing copied)\n", gigabytes / best_append);
  return 0;
}

}  // namespace
}  // namespace brink::perfdata

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "make") == 0) {
    return brink::perfdata::Make(argv[2], std::strtoull(argv[3], nullptr, 10), argc > 4 ? std::atoi(argv[4]) : 0, argc <= 5);
  }
  if (argc == 2 && std::strcmp(argv[1], "encode") == 0) return brink::perfdata::Encode();
  std::fprintf(stderr, "usage: bench_perfdata make FILE MEGABYTES [LEVEL [no-cycles]] | encode\n");
  return 2;
}
