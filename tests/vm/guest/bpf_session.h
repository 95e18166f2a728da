// The loaded guest_snap object and its links, for one test.
#pragma once

#include <bpf/libbpf.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/check.h"
#include "guest_snap.h"
#include "guest_snap.skel.h"
#include "harness.h"

namespace brink::guest {

// extern "C" so that libbpf finds it by name; enters getppid.
extern "C" void brink_guest_probe_here();

class BpfSession {
 public:
  BpfSession() : skeleton_(guest_snap_bpf__open_and_load()) {
    BRINK_CHECK(skeleton_ != nullptr);
    skeleton_->bss->target = getpid();
  }
  ~BpfSession() {
    for (bpf_link* link : links_) bpf_link__destroy(link);
    guest_snap_bpf__destroy(skeleton_);
  }
  guest_snap_bpf* operator->() { return skeleton_; }
  void SetTarget(int pid) { skeleton_->bss->target = pid; }
  const guest_stack& Result(guest_hook hook) const { return skeleton_->bss->results[hook]; }

  // False where this kernel refuses.
  bool Attach(guest_hook hook);
  void AttachTo(bpf_program* program, int event_fd) { Keep(bpf_program__attach_perf_event(program, event_fd)); }
  void DetachAll() {
    for (bpf_link* link : links_) bpf_link__destroy(link);
    links_.clear();
  }

 private:
  bool Keep(bpf_link* link) {
    if (link) links_.push_back(link);
    return link != nullptr;
  }
  guest_snap_bpf* skeleton_;
  std::vector<bpf_link*> links_;
};

const char* HookName(guest_hook hook);
Stack StackOf(const guest_stack& result);

}  // namespace brink::guest
