// What rtla's --bpf-action needs of an object, and that every tracepoint the latency programs want loads here.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "brink/abi/snapshot.h"
#include "latency/blame_bpf.h"
#include "support/features.h"
#include "support/process.h"
#include "latency.skel.h"
#include "timerlat_action.skel.h"

namespace brink::latency {
namespace {

TEST(TimerlatAction, LoadsAsTheTracepointProgramThatRtlaCallsByTail) {
  SKIP_UNLESS("bpf.ringbuf");
  timerlat_action_bpf* skeleton = timerlat_action_bpf__open();
  ASSERT_NE(skeleton, nullptr);
  EXPECT_EQ(bpf_program__type(skeleton->progs.action_handler), BPF_PROG_TYPE_TRACEPOINT);
  EXPECT_STREQ(bpf_program__section_name(skeleton->progs.action_handler), "tp/timerlat_action");
  EXPECT_EQ(bpf_map__value_size(skeleton->maps.brink_timerlat), sizeof(brink_snapshot_slot));
  // Nothing is pinned by a test.
  ASSERT_EQ(bpf_map__set_pin_path(skeleton->maps.brink_timerlat, nullptr), 0);
  EXPECT_EQ(timerlat_action_bpf__load(skeleton), 0);
  timerlat_action_bpf__destroy(skeleton);
}

std::vector<std::string> ProgramTracepoints() {
  std::set<std::string> names;
  latency_bpf* skeleton = latency_bpf__open();
  struct bpf_program* program;
  bpf_object__for_each_program(program, skeleton->obj) {
    std::string section = bpf_program__section_name(program);
    names.insert(section.substr(section.rfind('/') + 1));
  }
  latency_bpf__destroy(skeleton);
  return {names.begin(), names.end()};
}

// doctor lists what the programs hang on, no more and no less, and says the same as the loader.
TEST(LatencyPrograms, DoctorTriesEachTracepoint) {
  SKIP_UNLESS("bpf.tp_btf");
  std::vector<std::string> listed, works;
  auto json = nlohmann::json::parse(testing_support::RunBrink({"doctor", "--json"}).out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  for (const auto& one : json["tracepoints"]) {
    listed.push_back(one["name"]);
    if (one["on"]) works.push_back(one["name"]);
    EXPECT_EQ(one["reason"].is_null(), one["on"].get<bool>()) << one;
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(ProgramTracepoints()));
  for (const char* needed : {"sched_waking", "sched_switch", "softirq_entry", "irq_handler_entry", "hrtimer_expire_entry", "cpu_idle"}) EXPECT_THAT(works, testing::Contains(needed));
  auto bpf = LatencyBpf::Start({.snapshots = false, .beat_ns = 0, .watch = {.watch = BRINK_LAT_WATCH_ALL}});
  ASSERT_TRUE(bpf.ok()) << bpf.status();
  for (const std::string& missing : (*bpf)->missing()) EXPECT_THAT(works, testing::Not(testing::Contains(missing)));
}

TEST(LatencyPrograms, LoadAndLogThisMachine) {
  SKIP_UNLESS("bpf.tp_btf");
  auto bpf = LatencyBpf::Start({.snapshots = false});
  ASSERT_TRUE(bpf.ok()) << bpf.status();
  // The heartbeat alone fills the logs.
  bool logged = false;
  for (int i = 0; i < 2000 && !logged; ++i) {
    ::usleep(5000);
    for (size_t cpu = 0; cpu < (*bpf)->cpus(); ++cpu) logged |= (*bpf)->cpu(cpu).head > 10;
  }
  EXPECT_TRUE(logged);
  auto slot = (*bpf)->Register(::getpid());
  ASSERT_TRUE(slot.ok());
  EXPECT_EQ(*slot, 0u);
  EXPECT_TRUE((*bpf)->Unregister(::getpid()).ok());
  EXPECT_FALSE((*bpf)->Unregister(::getpid()).ok());
}

}  // namespace
}  // namespace brink::latency
