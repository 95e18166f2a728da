// The BTF of the compiled BPF object against the header that user space is compiled with: clang for BPF and this
// compiler must have laid every shared structure out alike.
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "brink/abi/session.h"
#include "sample.skel.h"
#include "tasks.skel.h"

namespace brink {
namespace {

struct Field {
  const char* type;
  const char* name;
  size_t offset, size;
};
#define F(type, name) {#type, #name, offsetof(type, name), sizeof(((type*)nullptr)->name)}

constexpr Field kSampleFields[] = {
    F(brink_rec_header, type), F(brink_rec_header, version), F(brink_rec_header, size),
    F(brink_branch, from), F(brink_branch, to), F(brink_branch, info),
    F(brink_sample, header), F(brink_sample, time_ns), F(brink_sample, ip), F(brink_sample, end_ip), F(brink_sample, cgroup_id),
    F(brink_sample, period), F(brink_sample, tgid), F(brink_sample, tid), F(brink_sample, cpu), F(brink_sample, event),
    F(brink_sample, direction), F(brink_sample, stop), F(brink_sample, source), F(brink_sample, reserved8), F(brink_sample, flags),
    F(brink_sample, nr), F(brink_sample, chain_nr), F(brink_sample, steps), F(brink_sample, walk_ns), F(brink_sample, task_start_ns),
    F(brink_bpf_config, target_mode), F(brink_bpf_config, flags), F(brink_bpf_config, depth), F(brink_bpf_config, cgroups),
    F(brink_bpf_config, wake_bytes), F(brink_bpf_config, ring_bytes), F(brink_bpf_config, own_tgid), F(brink_bpf_config, source),
    F(brink_bpf_config, period_ns), F(brink_bpf_config, command_tgid), F(brink_task_entry, start_ticks),
    F(brink_replay_stack, nr), F(brink_replay_stack, ip), F(brink_replay_stack, entries),
};
constexpr Field kTaskFields[] = {
    F(brink_task_event, header), F(brink_task_event, time_ns), F(brink_task_event, task_start_ns), F(brink_task_event, tgid),
    F(brink_task_event, tid), F(brink_task_event, parent_tgid), F(brink_task_event, what),
};
struct Size {
  const char* type;
  size_t size;
};
constexpr Size kSizes[] = {{"brink_rec_header", sizeof(brink_rec_header)}, {"brink_branch", sizeof(brink_branch)},
                           {"brink_sample", sizeof(brink_sample)}, {"brink_bpf_config", sizeof(brink_bpf_config)},
                           {"brink_task_entry", sizeof(brink_task_entry)}, {"brink_replay_stack", sizeof(brink_replay_stack)}};

void CheckField(const btf* btf, const Field& field) {
  int id = btf__find_by_name_kind(btf, field.type, BTF_KIND_STRUCT);
  ASSERT_GT(id, 0) << field.type;
  const btf_type* type = btf__type_by_id(btf, static_cast<uint32_t>(id));
  const btf_member* members = btf_members(type);
  for (int i = 0; i < btf_vlen(type); ++i) {
    if (std::string(btf__name_by_offset(btf, members[i].name_off)) != field.name) continue;
    EXPECT_EQ(btf_member_bit_offset(type, static_cast<uint32_t>(i)), field.offset * 8) << field.type << "." << field.name;
    EXPECT_EQ(btf__resolve_size(btf, members[i].type), static_cast<int64_t>(field.size)) << field.type << "." << field.name;
    return;
  }
  FAIL() << field.type << " has no " << field.name << " in the BPF object";
}

TEST(AbiBtf, SamplingObjectAgreesWithTheHeader) {
  sample_bpf* object = sample_bpf__open();
  ASSERT_NE(object, nullptr);
  const btf* btf = bpf_object__btf(object->obj);
  for (const Field& field : kSampleFields) CheckField(btf, field);
  for (const Size& size : kSizes) {
    int id = btf__find_by_name_kind(btf, size.type, BTF_KIND_STRUCT);
    ASSERT_GT(id, 0) << size.type;
    EXPECT_EQ(btf__type_by_id(btf, static_cast<uint32_t>(id))->size, size.size) << size.type;
  }
  sample_bpf__destroy(object);
}

// Two counters of one number are one counter; a switch does not compile with them.
constexpr bool IsCounter(int value) {
  switch (value) {
    case BRINK_CNT_EVENTS: case BRINK_CNT_EMITTED: case BRINK_CNT_EMITTED_BYTES: case BRINK_CNT_RING_FULL: case BRINK_CNT_RING_CONTENDED:
    case BRINK_CNT_LOST_BYTES: case BRINK_CNT_FILTERED: case BRINK_CNT_FILTER_UNKNOWN: case BRINK_CNT_NO_STACK: case BRINK_CNT_THROTTLED:
    case BRINK_CNT_RECURSION: case BRINK_CNT_MISS_LOST: case BRINK_CNT_TASKS_LOST: case BRINK_CNT_RECORDS_FILTERED:
    case BRINK_CNT_RECORDS_UNKNOWN: case BRINK_CNT_LATE:
      return true;
    default:
      return false;
  }
}

TEST(AbiBtf, CountersHaveNumbersOfTheirOwn) {
  for (int i = 0; i < BRINK_CNT_MAX; ++i) EXPECT_TRUE(IsCounter(i)) << i;
  EXPECT_FALSE(IsCounter(BRINK_CNT_MAX));
}

TEST(AbiBtf, TheTablesNameEveryMember) {
  sample_bpf* object = sample_bpf__open();
  ASSERT_NE(object, nullptr);
  const btf* btf = bpf_object__btf(object->obj);
  for (const char* name : {"brink_sample", "brink_bpf_config"}) {
    int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);
    int listed = 0;
    for (const Field& field : kSampleFields) listed += std::string(field.type) == name;
    EXPECT_EQ(listed, btf_vlen(btf__type_by_id(btf, static_cast<uint32_t>(id)))) << name;
  }
  sample_bpf__destroy(object);
}

TEST(AbiBtf, TaskObjectAgreesWithTheHeader) {
  tasks_bpf* object = tasks_bpf__open();
  ASSERT_NE(object, nullptr);
  for (const Field& field : kTaskFields) CheckField(bpf_object__btf(object->obj), field);
  tasks_bpf__destroy(object);
}

}  // namespace
}  // namespace brink
