// The reader against recordings that a second implementation spelled out (file_builder.h), in both byte orders.
#include "perfdata/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "file_builder.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;

std::unique_ptr<Reader> OpenText(std::string text, ReaderOptions options = {}, bool stream = false) {
  auto reader = Reader::Open(MemoryInput(std::move(text), stream), options);
  EXPECT_THAT(reader, IsOk());
  return reader.ok() ? *std::move(reader) : nullptr;
}

// The next record, which must exist.
Record NextOf(Reader& reader) {
  Record record;
  auto more = reader.Next(&record);
  EXPECT_THAT(more, IsOk());
  EXPECT_TRUE(more.ok() && *more);
  return record;
}

bool AtEnd(Reader& reader) {
  Record record;
  auto more = reader.Next(&record);
  return more.ok() && !*more;
}

std::vector<uint64_t> TimesOf(Reader& reader) {
  std::vector<uint64_t> times;
  Record record;
  while (true) {
    auto more = reader.Next(&record);
    EXPECT_THAT(more, IsOk());
    if (!more.ok() || !*more) return times;
    times.push_back(record.time);
  }
}

constexpr uint64_t kPlain = kSampleIp | kSampleTid | kSampleTime | kSamplePeriod | kSampleBranchStack;

class BothOrders : public testing::TestWithParam<Order> {
 protected:
  Order order() const { return GetParam(); }
  std::string Rec(uint64_t type, uint64_t misc, const std::string& body) const { return RecordText(order(), type, misc, body); }
  Bytes B() const { return Bytes(order()); }
  // A sample with the fields of kPlain.
  std::string PlainSample(uint64_t time, const std::vector<std::array<uint64_t, 3>>& stack = {}) const {
    Bytes body = B().U64(0x1000).U32(1).U32(2).U64(time).U64(99).U64(stack.size());
    for (const auto& e : stack) body.U64s({e[0], e[1], e[2]});
    return Rec(9, 2, body.text());
  }
};

INSTANTIATE_TEST_SUITE_P(Orders, BothOrders, testing::Values(Order::kLittle, Order::kBig),
                         [](const auto& p) { return p.param == Order::kLittle ? "Little" : "Big"; });

TEST_P(BothOrders, DecodeEveryFieldOfASample) {
  AttrText attr{.sample_type = (1 << 25) - 1 - kSampleWeightStruct, .read_format = 0x1f, .branch_type = kBranchHwIndex | kBranchCounters,
                .regs_user = 0b1011, .regs_intr = 0b1};
  attr.stack_user = 16;
  Bytes b = B();
  b.U64(5).U64(0x401000).U32(11).U32(12).U64(777).U64(0xadd).U64(5).U64(6).U32(3).U32(0).U64(1000);
  b.U64s({2, 100, 200, 10, 71, 1, 20, 72, 2});                    // group of two: enabled, running, {value, id, lost}
  b.U64s({3, static_cast<uint64_t>(-512), 0x401000, 0x402000});   // chain
  b.U32(12).Name("raw bytes", 12);
  b.U64s({2, 9});                                                 // two branches, hw_idx
  b.U64s({0x10, 0x20, FlagsWord(order(), {.mispred = 1, .cycles = 500, .type = 5, .spec = 2, .priv = 1})});
  b.U64s({0x30, 0x40, FlagsWord(order(), {.predicted = 1, .in_tx = 1, .abort = 1, .cycles = 65535, .type = 15, .new_type = 3, .priv = 2})});
  b.U64s({81, 82});                                               // counters
  b.U64s({2, 1, 2, 3});                                           // registers of user mode
  b.U64(16).Name("the stack", 16).U64(8);
  b.U64s({70, 0x44, 0x55});                                       // weight, source, transaction
  b.U64s({1, 42});                                                // registers of the interrupt
  b.U64s({0xf00, 0xc9, 4096, 2097152});                           // physical address, cgroup, page sizes
  b.U64(8).Name("auxdata", 8);
  for (bool pipe : {false, true}) {
    std::string data = Rec(9, 1, b.text());
    auto reader = OpenText(pipe ? PipeText(order(), {{attr, {5}}}, data) : FileText(order(), {{attr, {5}}}, data));
    Record record = NextOf(*reader);
    EXPECT_EQ(record.cpumode(), kMiscKernel);
    EXPECT_EQ(record.time, 777u);
    const Sample* s = record.sample();
    ASSERT_NE(s, nullptr);
    EXPECT_THAT((std::vector<uint64_t>{s->id, s->ip, s->pid, s->tid, s->time, s->addr, s->stream_id, s->cpu, s->period}),
                ElementsAre(5, 0x401000, 11, 12, 777, 0xadd, 6, 3, 1000));
    EXPECT_THAT((std::vector<uint64_t>{s->read.time_enabled, s->read.time_running, s->read.count(), s->read.value(0), s->read.value(1)}),
                ElementsAre(100, 200, 2, 10, 20));
    EXPECT_THAT(s->chain, ElementsAre(static_cast<uint64_t>(-512), 0x401000, 0x402000));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(s->raw.data()), 9), "raw bytes");
    ASSERT_EQ(s->branches.size(), 2u);
    EXPECT_EQ(s->hw_idx, 9u);
    const BranchEntry& first = s->branches[0];
    EXPECT_EQ(first.from, 0x10u);
    EXPECT_EQ(first.to, 0x20u);
    EXPECT_EQ(first.prediction(), Prediction::kMispredicted);
    EXPECT_EQ(first.cycles(), 500u);
    EXPECT_EQ(first.type(), PerfBranchType::kIndCall);
    EXPECT_EQ(first.spec(), Spec::kNonSpecCorrect);
    EXPECT_EQ(first.priv(), Priv::kUser);
    const BranchEntry& second = s->branches[1];
    EXPECT_TRUE(second.in_tx() && second.abort() && second.predicted_bit() && !second.mispredicted_bit());
    EXPECT_EQ(second.cycles(), 65535u);
    EXPECT_EQ(second.new_type(), 3u);
    EXPECT_EQ(second.priv(), Priv::kKernel);
    EXPECT_THAT(s->counters, ElementsAre(81, 82));
    EXPECT_EQ(s->regs_user.abi, 2u);
    EXPECT_THAT(s->regs_user.values, ElementsAre(1, 2, 3));
    EXPECT_EQ(s->stack_user.size(), 16u);
    EXPECT_EQ(s->stack_dynamic_size, 8u);
    EXPECT_THAT((std::vector<uint64_t>{s->weight, s->data_src, s->transaction, s->phys_addr, s->cgroup, s->data_page_size, s->code_page_size}),
                ElementsAre(70, 0x44, 0x55, 0xf00, 0xc9, 4096, 2097152));
    EXPECT_THAT(s->regs_intr.values, ElementsAre(42));
    EXPECT_EQ(s->aux.size(), 8u);
    EXPECT_TRUE(AtEnd(*reader));
    EXPECT_TRUE(reader->stats().complete());
  }
}

TEST_P(BothOrders, DecodeEveryRecordOfTheKernel) {
  AttrText attr{.sample_type = kSampleTid | kSampleTime | kSampleCpu | kSampleIdentifier};
  const std::string id = B().U32(1).U32(2).U64(50).U32(3).U32(0).U64(5).text();
  std::string build_id(20, '\x42');
  std::string data;
  data += Rec(1, 1 | 1 << 13, B().U32(7).U32(8).U64s({0x1000, 0x2000, 0x3000}).Name("/lib/a", 8).Raw(id).text());
  data += Rec(10, 2, B().U32(7).U32(8).U64s({0x1000, 0x2000, 0x3000}).U32(8).U32(1).U64s({99, 4}).U32(5).U32(2).Name("/lib/b", 8).Raw(id).text());
  data += Rec(10, 2 | 1 << 14, B().U32(7).U32(8).U64s({1, 2, 3}).U8(20).U8(0).U16(0).Raw(build_id).U32(5).U32(2).Name("/lib/c", 8).Raw(id).text());
  data += Rec(3, 1 << 13, B().U32(7).U32(8).Name("bash", 8).Raw(id).text());
  data += Rec(7, 0, B().U32(7).U32(1).U32(8).U32(2).U64(44).Raw(id).text());
  data += Rec(4, 0, B().U32(7).U32(1).U32(8).U32(2).U64(45).Raw(id).text());
  data += Rec(2, 0, B().U64s({5, 3}).Raw(id).text());
  data += Rec(13, 0, B().U64s({4}).Raw(id).text());
  data += Rec(5, 0, B().U64s({50, 5, 6}).Raw(id).text());
  data += Rec(6, 0, B().U64s({51, 5, 6}).Raw(id).text());
  data += Rec(8, 0, B().U32(7).U32(8).U64(1234).Raw(id).text());
  data += Rec(11, 0, B().U64s({1, 2, 3}).Raw(id).text());
  data += Rec(12, 0, B().U32(7).U32(8).Raw(id).text());
  data += Rec(14, 1 << 13, B().Raw(id).text());
  data += Rec(15, 0, B().U32(9).U32(10).Raw(id).text());
  data += Rec(16, 0, B().U32(7).U32(8).U64s({2, 3, 100, 3, 101}).Raw(id).text());
  data += Rec(17, 0, B().U64(0xffff).U32(64).U16(1).U16(0).Name("bpf_prog_x", 16).Raw(id).text());
  data += Rec(18, 0, B().U16(1).U16(0).U32(33).Name("12345678", 8).Raw(id).text());
  data += Rec(19, 0, B().U64(77).Name("/sys", 8).Raw(id).text());
  data += Rec(20, 0, B().U64(0xf00).U16(1).U16(2).Name("abc", 4).Raw(id).text());
  data += Rec(21, 0, B().U64(6).Raw(id).text());
  auto reader = OpenText(FileText(order(), {{attr, {5}}}, data), {.ordered = false});

  Record r = NextOf(*reader);
  const auto& mmap = std::get<Mmap>(r.body);
  EXPECT_EQ(mmap.filename, "/lib/a");
  EXPECT_TRUE(mmap.data && !mmap.mmap2);
  EXPECT_THAT((std::vector<uint64_t>{mmap.pid, mmap.tid, mmap.start, mmap.length, mmap.pgoff}), ElementsAre(7, 8, 0x1000, 0x2000, 0x3000));
  EXPECT_THAT((std::vector<uint64_t>{r.id.pid, r.id.tid, r.id.time, r.id.cpu, r.id.id, r.time}), ElementsAre(1, 2, 50, 3, 5, 50));
  r = NextOf(*reader);
  const auto& mmap2 = std::get<Mmap>(r.body);
  EXPECT_EQ(mmap2.filename, "/lib/b");
  EXPECT_THAT((std::vector<uint64_t>{mmap2.major, mmap2.minor, mmap2.inode, mmap2.inode_generation, mmap2.prot, mmap2.flags}), ElementsAre(8, 1, 99, 4, 5, 2));
  r = NextOf(*reader);
  EXPECT_EQ(std::get<Mmap>(r.body).build_id, build_id);
  EXPECT_EQ(std::get<Mmap>(r.body).filename, "/lib/c");
  r = NextOf(*reader);
  EXPECT_EQ(std::get<Comm>(r.body).comm, "bash");
  EXPECT_TRUE(std::get<Comm>(r.body).exec);
  for (bool exit : {false, true}) {
    r = NextOf(*reader);
    const auto& task = std::get<Task>(r.body);
    EXPECT_EQ(task.exit, exit);
    EXPECT_THAT((std::vector<uint64_t>{task.pid, task.ppid, task.tid, task.ptid, task.time}), ElementsAre(7, 1, 8, 2, 44 + exit));
  }
  r = NextOf(*reader);
  EXPECT_EQ(std::get<Lost>(r.body).lost, 3u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<LostSamples>(r.body).lost, 4u);
  r = NextOf(*reader);
  EXPECT_TRUE(std::get<Throttle>(r.body).throttled);
  r = NextOf(*reader);
  EXPECT_FALSE(std::get<Throttle>(r.body).throttled);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<CounterRead>(r.body).values.value(0), 1234u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<AuxData>(r.body).flags, 3u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<ItraceStart>(r.body).tid, 8u);
  r = NextOf(*reader);
  EXPECT_TRUE(std::get<ContextSwitch>(r.body).out);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<ContextSwitch>(r.body).next_prev_tid, 10u);
  r = NextOf(*reader);
  EXPECT_THAT(std::get<Namespaces>(r.body).pairs, ElementsAre(3, 100, 3, 101));
  r = NextOf(*reader);
  EXPECT_EQ(std::get<Ksymbol>(r.body).name, "bpf_prog_x");
  EXPECT_EQ(std::get<Ksymbol>(r.body).length, 64u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<BpfEvent>(r.body).prog_id, 33u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<Cgroup>(r.body).path, "/sys");
  r = NextOf(*reader);
  EXPECT_EQ(std::get<TextPoke>(r.body).new_bytes.size(), 2u);
  r = NextOf(*reader);
  EXPECT_EQ(std::get<AuxOutputHwId>(r.body).hw_id, 6u);
  EXPECT_TRUE(AtEnd(*reader));
  EXPECT_TRUE(reader->stats().complete());
  EXPECT_EQ(reader->stats().lost_records, 3u);
  EXPECT_EQ(reader->stats().lost_samples, 4u);
}

// Kernels set the bit of the build-id form for events that did not ask for ids when another event did.
TEST_P(BothOrders, DoNotTakeADeviceNumberForABuildId) {
  for (uint64_t major : {8, 0xfe, 0}) {
    std::string data = Rec(10, 2 | 1 << 14, B().U32(7).U32(8).U64s({1, 2, 3}).U32(major).U32(1).U64s({99, 0}).U32(5).U32(2).Name("/lib/c", 8).text());
    auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain, .sample_id_all = false}, {}}}, data));
    Record record = NextOf(*reader);
    const auto& mmap = std::get<Mmap>(record.body);
    EXPECT_EQ(mmap.build_id, "");
    EXPECT_EQ(mmap.major, major);
    EXPECT_EQ(mmap.inode, 99u);
    EXPECT_EQ(mmap.filename, "/lib/c");
  }
}

TEST_P(BothOrders, TellEventsApartByTheIdentifier) {
  AttrText plain{.config = 0, .sample_type = kSampleIdentifier | kSampleTid | kSampleTime};
  AttrText with_stack{.config = 1, .sample_type = kSampleIdentifier | kSampleTid | kSampleTime | kSampleBranchStack};
  std::string data = Rec(9, 0, B().U64(21).U32(1).U32(1).U64(10).U64s({1, 2, 3, 0}).text()) + Rec(9, 0, B().U64(11).U32(1).U32(1).U64(11).text()) +
                     Rec(9, 0, B().U64(99).U32(1).U32(1).U64(12).text());
  auto reader = OpenText(FileText(order(), {{plain, {10, 11}}, {with_stack, {20, 21}}}, data));
  Record first = NextOf(*reader), second;
  EXPECT_EQ(first.event, 1);
  EXPECT_EQ(first.sample()->branches.size(), 1u);
  second = NextOf(*reader);
  EXPECT_EQ(second.event, 0);
  EXPECT_TRUE(AtEnd(*reader));
  ASSERT_EQ(reader->stats().problem_count, 1u);
  EXPECT_EQ(reader->stats().problems[0].what, "a sample of an unknown event");
}

TEST_P(BothOrders, TellEventsApartByTheIdOfOlderPerfs) {
  AttrText a{.config = 0, .sample_type = kSampleIp | kSampleTid | kSampleTime | kSampleId};
  AttrText b{.config = 1, .sample_type = kSampleIp | kSampleTid | kSampleTime | kSampleId | kSamplePeriod};
  std::string data = Rec(9, 0, B().U64(0x10).U32(1).U32(1).U64(10).U64(7).U64(500).text());
  auto reader = OpenText(FileText(order(), {{a, {6}}, {b, {7}}}, data));
  Record record = NextOf(*reader);
  EXPECT_EQ(record.event, 1);
  EXPECT_EQ(record.sample()->period, 500u);
}

TEST_P(BothOrders, TakeTheHardwareIndexOnlyWhereItIs) {
  AttrText attr{.sample_type = kPlain | kSampleWeight, .branch_type = kBranchHwIndex};
  auto sample = [&](std::initializer_list<uint64_t> tail) { return Rec(9, 0, B().U64(1).U32(1).U32(1).U64(5).U64(9).U64s(tail).text()); };
  // With a stack; an empty one with its index; and none at all, where the kernel leaves the index out.
  std::string data = sample({1, 3, 0x10, 0x20, 0, 70}) + sample({0, 4, 71}) + sample({0, 72});
  auto reader = OpenText(FileText(order(), {{attr, {}}}, data), {.ordered = false});
  Record r = NextOf(*reader);
  EXPECT_EQ(r.sample()->hw_idx, 3u);
  EXPECT_EQ(r.sample()->weight, 70u);
  r = NextOf(*reader);
  EXPECT_EQ(r.sample()->hw_idx, 4u);
  EXPECT_EQ(r.sample()->weight, 71u);
  r = NextOf(*reader);
  EXPECT_EQ(r.sample()->hw_idx, std::nullopt);
  EXPECT_EQ(r.sample()->weight, 72u);
}

TEST_P(BothOrders, ReadAttributesOfEverySize) {
  for (uint64_t size : {64, 72, 80, 96, 104, 112, 120, 128, 136}) {
    AttrText attr{.size = size, .config = 1, .sample_type = kPlain & ~uint64_t{kSampleBranchStack}, .exclude_kernel = true, .precise = 2};
    std::string data = Rec(9, 0, B().U64(1).U32(1).U32(1).U64(5).U64(9).text());
    for (bool pipe : {false, true}) {
      auto reader = OpenText(pipe ? PipeText(order(), {{attr, {}}}, data) : FileText(order(), {{attr, {}}}, data));
      EXPECT_EQ(NextOf(*reader).sample()->period, 9u) << size;
      const EventInfo& event = reader->events()[0];
      EXPECT_EQ(event.name, "instructions:uhpp");
      EXPECT_EQ(event.attr.flags >> 15 & 3, 2u);
      EXPECT_EQ(event.attr.config3, size == 136 ? 0x79u : 0u);
    }
  }
}

TEST_P(BothOrders, ReadAttributesOfLaterKernels) {
  AttrText attr{.size = 136, .sample_type = kPlain};
  std::string text = attr.Text(order()) + std::string(24, '\x66');
  Bytes file = B();
  file.Raw(order() == Order::kLittle ? "PERFILE2" : "2ELIFREP").U64s({104, 176, 104, 176, 280, PlainSample(5).size(), 0, 0, 0, 0, 0, 0});
  file.Raw(text).U64s({0, 0}).Raw(PlainSample(5));
  auto reader = OpenText(file.text());
  EXPECT_EQ(NextOf(*reader).sample()->period, 99u);
}

TEST_P(BothOrders, ReadFeatureSections) {
  std::string desc = B().U32(1).U32(128).Raw(AttrText{.sample_type = kPlain}.Text(order())).U32(1).Raw(StringText(order(), "my_event")).U64(5).text();
  std::string build_id = B().U32(0).U16(2 | 1 << 15).U16(36 + 64).U32(0xffffffff).Name("\x01\x02\x03", 20).U8(3).U8(0).U16(0).Name("/bin/x", 64).text() +
                         B().U32(0).U16(1).U16(36 + 64).U32(7).Name(std::string(16, '\x05'), 20).U8(0).U8(0).U16(0).Name("[kernel.kallsyms]", 64).text();
  std::vector<Section> sections = {{kFeatureBuildId, build_id},
                                   {kFeatureHostname, StringText(order(), "host")},
                                   {kFeatureOsRelease, StringText(order(), "6.1")},
                                   {kFeatureVersion, StringText(order(), "v")},
                                   {kFeatureArch, StringText(order(), "x86_64")},
                                   {kFeatureNrCpus, B().U32(4).U32(2).text()},
                                   {kFeatureCpuDesc, StringText(order(), "cpu")},
                                   {kFeatureCpuid, StringText(order(), "id")},
                                   {kFeatureTotalMem, B().U64(1024).text()},
                                   {kFeatureCmdline, B().U32(2).Raw(StringText(order(), "perf")).Raw(StringText(order(), "record")).text()},
                                   {kFeatureEventDesc, desc},
                                   {kFeatureBranchStack, ""},
                                   {kFeaturePmuMappings, B().U32(1).U32(4).Raw(StringText(order(), "cpu")).text()},
                                   {kFeatureSampleTime, B().U64s({10, 20}).text()},
                                   {kFeatureClockid, B().U64(1).text()},
                                   {kFeatureCompressed, B().U32(1).U32(1).U32(3).U32(7).U32(4096).text()},
                                   {kFeatureClockData, B().U32(1).U32(1).U64s({1000, 2000}).text()}};
  auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain}, {5}}}, PlainSample(5), sections));
  const Features& f = reader->features();
  EXPECT_THAT((std::vector<std::string>{f.hostname, f.os_release, f.version, f.arch, f.cpu_desc, f.cpuid}),
              ElementsAre("host", "6.1", "v", "x86_64", "cpu", "id"));
  EXPECT_EQ(f.cpus_available, 4u);
  EXPECT_EQ(f.cpus_online, 2u);
  EXPECT_EQ(f.total_mem_kb, 1024u);
  EXPECT_THAT(f.cmdline, ElementsAre("perf", "record"));
  EXPECT_EQ(reader->events()[0].name, "my_event");
  EXPECT_TRUE(f.branch_stack);
  EXPECT_THAT(f.pmu_mappings, ElementsAre(std::pair<uint32_t, std::string>{4, "cpu"}));
  EXPECT_EQ(f.sample_time, (std::pair<uint64_t, uint64_t>{10, 20}));
  EXPECT_EQ(f.clockid_resolution_ns, 1u);
  EXPECT_EQ(f.compressed->mmap_len, 4096u);
  EXPECT_EQ(f.clock_data->clock_ns, 2000u);
  ASSERT_EQ(f.build_ids.size(), 2u);
  EXPECT_EQ(f.build_ids[0], (BuildIdEntry{-1, 2, "\x01\x02\x03", "/bin/x"}));
  // Written before sizes were: zeros at the end are padding.
  EXPECT_EQ(f.build_ids[1], (BuildIdEntry{7, 1, std::string(16, '\x05'), "[kernel.kallsyms]"}));
  EXPECT_TRUE(reader->stats().complete());
}

TEST_P(BothOrders, ReadWhatAStreamSaysAboutItself) {
  std::string head = Rec(80, 0, B().U64(kFeatureHostname).Raw(StringText(order(), "host")).text()) +
                     Rec(78, 0, B().U64(kUpdateName).U64(5).Name("named", 8).text()) +
                     Rec(67, 2 | 1 << 15, B().U32(0xffffffff).Name("\x09", 20).U8(1).U8(0).U16(0).Name("/bin/y", 8).text()) +
                     Rec(79, 0, B().U64s({1, 2, 3}).text());
  auto reader = OpenText(PipeText(order(), {{AttrText{.sample_type = kPlain}, {5}}}, head + PlainSample(5)), {}, true);
  EXPECT_EQ(std::get<TimeConversion>(NextOf(*reader).body).zero, 3u);
  EXPECT_EQ(NextOf(*reader).time, 5u);
  EXPECT_EQ(reader->features().hostname, "host");
  EXPECT_EQ(reader->events()[0].name, "named");
  EXPECT_EQ(reader->features().build_ids[0].filename, "/bin/y");
}

TEST_P(BothOrders, SkipTraceDataThatFollowsItsRecord) {
  // The payloads look like records on purpose, and the first is of an odd size.
  std::string payload = PlainSample(1) + PlainSample(2);
  std::string data = Rec(66, 0, B().U32(payload.size()).text()) + payload +
                     Rec(71, 0, B().U64s({payload.size(), 0, 0}).U32(0).U32(1).U32(2).U32(0).text()) + payload + PlainSample(7);
  auto reader = OpenText(PipeText(order(), {{AttrText{.sample_type = kPlain}, {}}}, data));
  EXPECT_EQ(NextOf(*reader).type, uint32_t{kRecordHeaderTracingData});
  Record trace = NextOf(*reader);
  EXPECT_EQ(std::get<Auxtrace>(trace.body).tid, 1u);
  EXPECT_EQ(NextOf(*reader).time, 7u);
  EXPECT_TRUE(AtEnd(*reader));
  EXPECT_TRUE(reader->stats().complete());
}

TEST_P(BothOrders, OrderByRounds) {
  std::string round = Rec(68, 0, "");
  std::string timed_round = Rec(68, 0, B().U64(45).text());
  auto samples = [&](std::initializer_list<uint64_t> times) {
    std::string out;
    for (uint64_t t : times) out += PlainSample(t);
    return out;
  };
  std::string data = samples({10, 30, 20}) + round + samples({25, 40, 28}) + round + samples({35, 50, 48}) + timed_round + samples({46, 60});
  auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, data));
  EXPECT_THAT(TimesOf(*reader), ElementsAre(10, 20, 25, 28, 30, 35, 40, 46, 48, 50, 60));
  EXPECT_EQ(reader->stats().late_records, 0u);
}

TEST_P(BothOrders, CountRecordsThatComeTooLate) {
  std::string round = Rec(68, 0, "");
  std::string data = PlainSample(10) + round + PlainSample(20) + round + PlainSample(5) + round + PlainSample(30);
  auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, data));
  EXPECT_THAT(TimesOf(*reader), ElementsAre(10, 5, 20, 30));
  EXPECT_EQ(reader->stats().late_records, 1u);
}

TEST_P(BothOrders, KeepTheOrderOfTheFileWhenAsked) {
  std::string data = PlainSample(10) + PlainSample(30) + PlainSample(20);
  auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, data), {.ordered = false});
  EXPECT_THAT(TimesOf(*reader), ElementsAre(10, 30, 20));
}

TEST_P(BothOrders, BoundTheQueueOfARecordingWithoutRounds) {
  std::string data;
  for (uint64_t t = 1; t <= 50'000; ++t) data += PlainSample(t ^ 1, std::vector<std::array<uint64_t, 3>>(8));
  auto reader = OpenText(FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, data), {.max_queue_bytes = 2 << 20, .chunk_bytes = 256 << 10});
  std::vector<uint64_t> times = TimesOf(*reader);
  EXPECT_EQ(times.size(), 50'000u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_GT(reader->stats().forced_flushes, 2u);
}

TEST_P(BothOrders, ReadARecordingThatIsStillEmpty) {
  std::string text = FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, "");
  auto reader = OpenText(text);
  EXPECT_TRUE(AtEnd(*reader));
  EXPECT_TRUE(reader->facts().unfinished);
}

TEST_P(BothOrders, ReadToTheEndWhereTheSizeWasNeverWritten) {
  std::string text = FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, "") + PlainSample(5) + PlainSample(6);
  auto reader = OpenText(text);
  EXPECT_THAT(TimesOf(*reader), ElementsAre(5, 6));
}

TEST_P(BothOrders, ReadAFileThatComesThroughAPipe) {
  std::string text = FileText(order(), {{AttrText{.sample_type = kPlain}, {}}}, PlainSample(5), {{kFeatureHostname, StringText(order(), "host")}});
  auto reader = OpenText(text, {}, true);
  EXPECT_EQ(reader->features().hostname, "host");
  EXPECT_THAT(TimesOf(*reader), ElementsAre(5));
}

TEST(ReaderOpen, RefusesWhatIsNoRecording) {
  auto open = [](std::string text) { return Reader::Open(MemoryInput(std::move(text))); };
  EXPECT_THAT(open(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it is empty")));
  EXPECT_THAT(open("PERF"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too short")));
  EXPECT_THAT(open(std::string(1024, '\0')), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("begins with 0000000000000000")));
  EXPECT_THAT(open(std::string("PERFILE2\x20\0\0\0\0\0\0\0", 16)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("header of")));
  EXPECT_THAT(open("PERFILE2h" + std::string(40, '\0')), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short")));
  EXPECT_THAT(Reader::Open("/nonexistent/x.data"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/x.data")));
  EXPECT_THAT(Reader::Open("/tmp"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("folder")));
}

}  // namespace
}  // namespace brink::perfdata
