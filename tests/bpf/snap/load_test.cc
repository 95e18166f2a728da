// Every program of brink snap passes this kernel's verifier with everything turned on, and lays its records out as user
// space does.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <iterator>
#include <utility>

#include "brink/abi/session.h"
#include "brink/abi/snap.h"
#include "brink/abi/snapshot.h"
#include "session/core.h"
#include "snap.skel.h"
#include "snap_side.skel.h"
#include "support/features.h"

namespace brink {
namespace {

struct Program {
  const char* name;
  const char* feature;
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

class SnapPrograms : public testing::TestWithParam<Program> {
 protected:
  static void Load(const brink_snap_config& config);
};

// The largest configuration: all values behind as many pointers as may be, strings, keys, rates, a full filter.
brink_snap_config FullConfig() {
  brink_snap_config config = {};
  config.flags = 0xffff & ~static_cast<uint32_t>(BRINK_SNAP_CFG_NEED_ENTRY);
  config.subsys = 3;
  config.nth = 2;
  config.limit = 5;
  config.count = 10;
  config.key = BRINK_SNAP_KEY_SLOT;
  config.signals = ~0ULL;
  config.loads = BRINK_FILTER_MAX_EXT;
  config.strings = BRINK_SNAP_STRINGS;
  for (uint32_t i = 0; i < BRINK_FILTER_MAX_EXT; ++i) config.load[i] = {.base = static_cast<__u8>(1 + i % 3), .steps = static_cast<__u8>(1 + i % BRINK_SNAP_LOAD_STEPS), .size = 8};
  for (auto& load : config.string) load = {.base = BRINK_SNAP_CTX, .steps = 3, .size = 8, .user = 4};
  config.filter.sample_ops = BRINK_FILTER_MAX_OPS;
  for (uint32_t i = 0; i < BRINK_FILTER_MAX_OPS; ++i) {
    config.filter.sample[i].code = i % 2 ? BRINK_FOP_AND : BRINK_FOP_RANGE;
    config.filter.sample[i].field = static_cast<__u8>(BRINK_FF_EXT + i % BRINK_FILTER_MAX_EXT);
  }
  return config;
}

// A duration drops every hit of a program that has none, and with it all the rest of the program.
brink_snap_config WithDuration() {
  brink_snap_config config = FullConfig();
  config.slower_ns = 1;
  return config;
}

// As many tests as are judged without the interpreter, each of another kind.
brink_snap_config WithTests() {
  brink_snap_config config = FullConfig();
  constexpr std::pair<brink_filter_code, uint8_t> kTests[] = {{BRINK_FOP_RANGE, BRINK_FF_CGROUP}, {BRINK_FOP_COMM, BRINK_FF_COMM}, {BRINK_FOP_BITS, BRINK_FF_EXT + 15}, {BRINK_FOP_IS_UNKNOWN, BRINK_FF_IP}};
  static_assert(std::size(kTests) == BRINK_SNAP_TESTS);
  for (const auto& [code, field] : kTests) {
    config.filter.sample[config.tests].code = static_cast<uint8_t>(code);
    config.filter.sample[config.tests++].field = field;
  }
  return config;
}

TEST_P(SnapPrograms, PassTheVerifier) {
  SKIP_UNLESS(GetParam().feature);
  CaptureLibbpfMessages();
  for (const brink_snap_config& config : {FullConfig(), WithDuration(), WithTests()}) Load(config);
}

void SnapPrograms::Load(const brink_snap_config& config) {
  snap_bpf* skeleton = snap_bpf__open();
  ASSERT_NE(skeleton, nullptr);
  bpf_program* program = bpf_object__find_program_by_name(skeleton->obj, GetParam().name);
  ASSERT_NE(program, nullptr);
  bpf_program__set_autoload(program, true);
  std::string section = bpf_program__section_name(program);
  if (section == "fentry" || section == "fexit") {
    ASSERT_EQ(bpf_program__set_attach_target(program, 0, "vfs_llseek"), 0);
  }
  ASSERT_TRUE(SetRodata(skeleton->obj, "snap_cfg", &config, sizeof(config)).ok());
  int error = snap_bpf__load(skeleton);
  std::string words = TakeLibbpfMessage();
  snap_bpf__destroy(skeleton);
  EXPECT_EQ(error, 0) << words;
}

INSTANTIATE_TEST_SUITE_P(
    All, SnapPrograms,
    testing::Values(Program{"snap_tracepoint", "bpf.tracepoint"}, Program{"snap_raw_tracepoint", "bpf.raw_tp"}, Program{"snap_exit", "bpf.raw_tp"},
                    Program{"snap_sys_enter", "bpf.raw_tp"}, Program{"snap_sys_entry", "bpf.raw_tp"}, Program{"snap_sys_exit", "bpf.raw_tp"},
                    Program{"snap_signal_deliver", "bpf.raw_tp"}, Program{"snap_signal_sent", "bpf.raw_tp"}, Program{"snap_signal_made", "bpf.raw_tp"}, Program{"snap_kprobe", "bpf.uprobe"},
                    Program{"snap_kentry", "bpf.uprobe"}, Program{"snap_kretprobe", "bpf.uprobe"}, Program{"snap_uprobe", "bpf.uprobe"},
                    Program{"snap_uentry", "bpf.uprobe"}, Program{"snap_uretprobe", "bpf.uprobe"}, Program{"snap_kmulti", "bpf.kprobe_multi"},
                    Program{"snap_kmulti_entry", "bpf.kprobe_multi"}, Program{"snap_kretmulti", "bpf.kprobe_multi"}, Program{"snap_fentry", "bpf.fentry"},
                    Program{"snap_fentry_entry", "bpf.fentry"}, Program{"snap_fexit", "bpf.fexit"}, Program{"snap_perf", "bpf.perf_event"},
                    Program{"snap_manual", "bpf.raw_tp"}));

// The programs beside the triggers.
class SnapSidePrograms : public SnapPrograms {};

TEST_P(SnapSidePrograms, PassTheVerifier) {
  SKIP_UNLESS(GetParam().feature);
  CaptureLibbpfMessages();
  for (bool v1 : {false, true}) {
    snap_side_bpf* skeleton = snap_side_bpf__open();
    ASSERT_NE(skeleton, nullptr);
    bpf_program* program = bpf_object__find_program_by_name(skeleton->obj, GetParam().name);
    ASSERT_NE(program, nullptr);
    bpf_program__set_autoload(program, true);
    const brink_snap_config config = {.flags = BRINK_SNAP_CFG_CGROUPS | BRINK_SNAP_CFG_NOT_CGROUPS | (v1 ? BRINK_SNAP_CFG_V1 : 0u), .subsys = 3};
    ASSERT_TRUE(SetRodata(skeleton->obj, "snap_cfg", &config, sizeof(config)).ok());
    int error = snap_side_bpf__load(skeleton);
    std::string words = TakeLibbpfMessage();
    snap_side_bpf__destroy(skeleton);
    EXPECT_EQ(error, 0) << words;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SnapSidePrograms,
                         testing::Values(Program{"snap_history_switch", "bpf.raw_tp"}, Program{"snap_history_enter", "bpf.raw_tp"}, Program{"snap_history_exit", "bpf.raw_tp"}, Program{"snap_history_irq", "bpf.raw_tp"},
                                         Program{"snap_history_end", "bpf.raw_tp"}, Program{"snap_group_made", "bpf.raw_tp"}, Program{"snap_member_forked", "bpf.tp_btf"},
                                         Program{"snap_member_moved", "bpf.raw_tp"}, Program{"snap_member_renewed", "bpf.raw_tp"}));

TEST(SnapAbi, StructuresAreLaidOutAlike) {
  snap_bpf* triggers = snap_bpf__open();
  snap_side_bpf* side = snap_side_bpf__open();
  ASSERT_NE(triggers, nullptr);
  ASSERT_NE(side, nullptr);
  const std::pair<const char*, size_t> sizes[] = {{"brink_snap", sizeof(brink_snap)}, {"brink_snap_config", sizeof(brink_snap_config)},
                                                  {"brink_snap_load", sizeof(brink_snap_load)}, {"brink_snap_entry", sizeof(brink_snap_entry)},
                                                  {"brink_snap_event", sizeof(brink_snap_event)},
                                                  {"brink_snap_group", sizeof(brink_snap_group)}};
  for (const auto& [name, size] : sizes) {
    int64_t found = 0;
    for (const bpf_object* object : {triggers->obj, side->obj}) {
      const btf* types = bpf_object__btf(object);
      const int id = btf__find_by_name_kind(types, name, BTF_KIND_STRUCT);
      if (id <= 0) continue;
      found = btf__resolve_size(types, static_cast<uint32_t>(id));
      EXPECT_EQ(found, static_cast<int64_t>(size)) << name;
    }
    EXPECT_NE(found, 0) << name;
  }
  snap_bpf__destroy(triggers);
  snap_side_bpf__destroy(side);
}

}  // namespace
}  // namespace brink
