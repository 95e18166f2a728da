// Giving up rights that are no longer needed.
#pragma once

#include <vector>

#include "base/status.h"
#include "kernel/capability.h"

namespace brink {

// Reduces the calling thread to those of `keep` that it holds: effective and permitted sets, bounding set as far as
// allowed, inheritable and ambient sets emptied; then no_new_privs, so that nothing it executes gets more. Threads and
// children made later inherit this; threads that exist keep theirs, so call it before there are any. Not reversible.
Status DropPrivileges(const std::vector<int>& keep);

// What following a recording needs after everything is loaded and opened: new CPUs' events and map updates, mappings
// and binaries of the target, kernel symbols. No CAP_SYS_ADMIN, but where PerfNeedsSysAdmin.
const std::vector<int>& RecordingCapabilities();

// Whether this kernel refuses the events of a whole CPU to CAP_PERFMON alone (Debian's at perf_event_paranoid 3): tried,
// without CAP_SYS_ADMIN for that moment. False too where this thread could not open them in any case. The calling
// thread's effective set is as before afterwards.
bool PerfNeedsSysAdmin();

// PermissionDenied with the exact setcap line where this process can neither load BPF nor open others' events.
Status RequireRecordingRights(const CapSet& effective);

}  // namespace brink
