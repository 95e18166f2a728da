#include "bpf_session.h"

#include <sys/syscall.h>

#include <algorithm>

namespace brink::guest {

extern "C" __attribute__((noinline)) void brink_guest_probe_here() { syscall(SYS_getppid); }

bool BpfSession::Attach(guest_hook hook) {
  auto& programs = skeleton_->progs;
  switch (hook) {
    case GUEST_RAW_TP: return Keep(bpf_program__attach(programs.at_raw_tp));
    case GUEST_TRACEPOINT: return Keep(bpf_program__attach(programs.at_tracepoint));
    case GUEST_FENTRY: return Keep(bpf_program__attach(programs.at_fentry));
    case GUEST_FEXIT: return Keep(bpf_program__attach(programs.at_fexit));
    case GUEST_KPROBE: return Keep(bpf_program__attach_kprobe(programs.at_kprobe, false, "__do_sys_getppid"));
    case GUEST_KRETPROBE: return Keep(bpf_program__attach_kprobe(programs.at_kretprobe, true, "__do_sys_getppid"));
    case GUEST_UPROBE: {
      bpf_uprobe_opts options = {};
      options.sz = sizeof(options);
      options.func_name = "brink_guest_probe_here";
      return Keep(bpf_program__attach_uprobe_opts(programs.at_uprobe, skeleton_->bss->target, "/proc/self/exe", 0, &options));
    }
    default: return false;
  }
}

const char* HookName(guest_hook hook) {
  constexpr const char* kNames[] = {"raw_tp", "tracepoint", "fentry", "fexit", "kprobe", "kretprobe", "uprobe", "perf event"};
  return kNames[hook];
}

Stack StackOf(const guest_stack& result) {
  size_t count = result.bytes > 0 ? result.bytes / sizeof(guest_branch) : 0;
  Stack stack(result.entries, result.entries + std::min<size_t>(count, GUEST_ENTRIES));
  // Drivers fill up with what was there before; the first empty record ends what is real.
  stack.erase(std::find_if(stack.begin(), stack.end(), [](const guest_branch& b) { return b.from == 0; }), stack.end());
  return stack;
}

}  // namespace brink::guest
