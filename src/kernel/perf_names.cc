#include "kernel/perf_names.h"

#include <array>
#include <linux/perf_event.h>

namespace brink {
namespace {

struct Row {
  std::string_view name;
  uint32_t type;
  uint64_t config;
};

constexpr uint32_t kHw = PERF_TYPE_HARDWARE, kSw = PERF_TYPE_SOFTWARE;
constexpr Row kRows[] = {
    {"cycles", kHw, PERF_COUNT_HW_CPU_CYCLES},
    {"cpu-cycles", kHw, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", kHw, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", kHw, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", kHw, PERF_COUNT_HW_CACHE_MISSES},
    {"branches", kHw, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-instructions", kHw, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", kHw, PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", kHw, PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", kHw, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"idle-cycles-frontend", kHw, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", kHw, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"idle-cycles-backend", kHw, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", kHw, PERF_COUNT_HW_REF_CPU_CYCLES},
    {"cpu-clock", kSw, PERF_COUNT_SW_CPU_CLOCK},
    {"task-clock", kSw, PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", kSw, PERF_COUNT_SW_PAGE_FAULTS},
    {"faults", kSw, PERF_COUNT_SW_PAGE_FAULTS},
    {"minor-faults", kSw, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", kSw, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"context-switches", kSw, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cs", kSw, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", kSw, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"migrations", kSw, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"alignment-faults", kSw, PERF_COUNT_SW_ALIGNMENT_FAULTS},
    {"emulation-faults", kSw, PERF_COUNT_SW_EMULATION_FAULTS},
    {"dummy", kSw, PERF_COUNT_SW_DUMMY},
    {"bpf-output", kSw, PERF_COUNT_SW_BPF_OUTPUT},
    {"cgroup-switches", kSw, PERF_COUNT_SW_CGROUP_SWITCHES},
};

struct Part {
  std::string_view name;
  uint64_t value;
};

constexpr Part kCaches[] = {
    {"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I}, {"LLC", PERF_COUNT_HW_CACHE_LL},
    {"dTLB", PERF_COUNT_HW_CACHE_DTLB},     {"iTLB", PERF_COUNT_HW_CACHE_ITLB},     {"branch", PERF_COUNT_HW_CACHE_BPU},
    {"node", PERF_COUNT_HW_CACHE_NODE},
};

constexpr uint64_t Access(uint64_t op, uint64_t result) { return op << 8 | result << 16; }
constexpr Part kAccesses[] = {
    {"loads", Access(PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"load-misses", Access(PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"stores", Access(PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"store-misses", Access(PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"prefetches", Access(PERF_COUNT_HW_CACHE_OP_PREFETCH, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"prefetch-misses", Access(PERF_COUNT_HW_CACHE_OP_PREFETCH, PERF_COUNT_HW_CACHE_RESULT_MISS)},
};

std::string CacheName(const Part& cache, const Part& access) {
  return std::string(cache.name) + "-" + std::string(access.name);
}

}  // namespace

std::optional<NamedEvent> FindGenericEvent(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return NamedEvent{row.type, row.config};
  }
  for (const Part& cache : kCaches) {
    for (const Part& access : kAccesses) {
      if (CacheName(cache, access) == name) return NamedEvent{PERF_TYPE_HW_CACHE, cache.value | access.value};
    }
  }
  return std::nullopt;
}

std::vector<std::string> GenericEventNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  for (const Part& cache : kCaches) {
    for (const Part& access : kAccesses) names.push_back(CacheName(cache, access));
  }
  return names;
}

}  // namespace brink
