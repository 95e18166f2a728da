#include "probe/tracepoints.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/bpf.h>

#include <cerrno>
#include <memory>

#include "base/fd.h"
#include "probe/prober.h"

namespace brink {
namespace {

constexpr TracepointUse kUses[] = {
    {"hrtimer_expire_entry", "the timer's expiry, where there are no interrupt vectors to see"},
    {"hrtimer_expire_exit", "its end"},
    {"local_timer_entry", "the timer's interrupt: when it came, branches before it"},
    {"local_timer_exit", "how long it took"},
    {"reschedule_entry", "interrupts of other CPUs: rescheduling"},
    {"reschedule_exit", "their length"},
    {"call_function_entry", "interrupts of other CPUs: function calls"},
    {"call_function_exit", "their length"},
    {"call_function_single_entry", "interrupts of other CPUs: calls to one CPU"},
    {"call_function_single_exit", "their length"},
    {"irq_work_entry", "deferred work of interrupts"},
    {"irq_work_exit", "its length"},
    {"ipi_entry", "interrupts of other CPUs (arm64)"},
    {"ipi_exit", "their length"},
    {"ipi_send_cpu", "who interrupted another CPU, and for which function"},
    {"ipi_send_cpumask", "who interrupted several"},
    {"irq_handler_entry", "interrupts of devices"},
    {"irq_handler_exit", "their length"},
    {"softirq_entry", "softirqs"},
    {"softirq_exit", "their length"},
    {"page_fault_user", "page faults of user code"},
    {"page_fault_kernel", "page faults of the kernel"},
    {"mm_vmscan_direct_reclaim_begin", "memory pressure"},
    {"mm_vmscan_direct_reclaim_end", "its length"},
    {"mm_vmscan_memcg_reclaim_begin", "memory pressure in a group"},
    {"mm_vmscan_memcg_reclaim_end", "its length"},
    {"cpu_idle", "idle states that were left"},
    {"cpu_frequency", "changes of frequency"},
    {"workqueue_execute_start", "work that a kernel worker did"},
    {"sched_waking", "when and where a thread was woken"},
    {"sched_wakeup", "when it reached its CPU's queue"},
    {"sched_migrate_task", "migrations"},
    {"sched_switch", "who had the CPU"},
};

struct BtfCloser {
  void operator()(btf* b) const { btf__free(b); }
};

Finding Try(const btf* kernel, std::string_view name) {
  std::string type = "btf_trace_" + std::string(name);
  int id = btf__find_by_name_kind(kernel, type.c_str(), BTF_KIND_TYPEDEF);
  if (id <= 0) return Finding::Off("this kernel does not have it");
  // r0 = 0; exit
  const bpf_insn empty[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
  bpf_prog_load_opts options = {};
  options.sz = sizeof options;
  options.expected_attach_type = BPF_TRACE_RAW_TP;
  options.attach_btf_id = static_cast<uint32_t>(id);
  UniqueFd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "brink_try", "GPL", empty, std::size(empty), &options));
  if (!program.valid()) return Finding::Off("its program is refused: " + probe::ErrnoText(errno));
  UniqueFd link(bpf_raw_tracepoint_open(nullptr, program.get()));
  if (!link.valid()) return Finding::Off("it cannot be attached to: " + probe::ErrnoText(errno));
  return Finding::On();
}

}  // namespace

std::span<const TracepointUse> LatencyTracepoints() { return kUses; }

std::vector<TracepointFinding> ProbeTracepoints(const FeatureSet& features, std::span<const TracepointUse> uses) {
  std::unique_ptr<btf, BtfCloser> kernel;
  Status possible = features.Require(Feature::kBpfTpBtf);
  if (possible.ok()) kernel.reset(btf__load_vmlinux_btf());
  std::vector<TracepointFinding> found;
  for (const TracepointUse& use : uses) {
    Finding finding = kernel ? Try(kernel.get(), use.name) : Finding::Off("bpf.tp_btf: " + features.Get(Feature::kBpfTpBtf).reason);
    found.push_back({use, std::move(finding)});
  }
  return found;
}

}  // namespace brink
