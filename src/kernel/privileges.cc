#include "kernel/privileges.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "kernel/perf_event.h"

namespace brink {

const std::vector<int>& RecordingCapabilities() {
  static const std::vector<int> keep = {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_IPC_LOCK};
  return keep;
}

namespace {

bool OpensCpuEvents() {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.disabled = 1;
  UniqueFd fd(RawPerfEventOpen(attr, {.pid = -1, .cpu = std::max(::sched_getcpu(), 0)}));
  return fd.valid();
}

bool SetEffective(cap_value_t cap, cap_flag_value_t to) {
  cap_t caps = ::cap_get_proc();
  bool set = caps && ::cap_set_flag(caps, CAP_EFFECTIVE, 1, &cap, to) == 0 && ::cap_set_proc(caps) == 0;
  ::cap_free(caps);
  return set;
}

}  // namespace

bool PerfNeedsSysAdmin() {
  if (!CapSet::ReadEffective().Has(CAP_SYS_ADMIN) || !OpensCpuEvents() || !SetEffective(CAP_SYS_ADMIN, CAP_CLEAR)) return false;
  const bool opened = OpensCpuEvents();
  return SetEffective(CAP_SYS_ADMIN, CAP_SET) && !opened;
}

Status RequireRecordingRights(const CapSet& effective) {
  if (effective.BpfCapable() && effective.PerfmonCapable()) return OkStatus();
  return PermissionDenied("BPF programs need CAP_BPF and CAP_PERFMON; " + SetcapLine() + ", or run as root");
}

Status DropPrivileges(const std::vector<int>& keep) {
  CapSet permitted = CapSet::ReadPermitted(), kept;
  for (int cap : keep) {
    if (permitted.Has(cap)) kept = kept.With(cap);
  }
  // The bounding set first: it takes CAP_SETPCAP, which goes next. Without that right it stays as it is, and
  // no_new_privs alone keeps what is executed from gaining.
  for (int cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    if (!kept.Has(cap)) (void)::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  }
  ::cap_reset_ambient();
  cap_t caps = ::cap_init();
  if (!caps) return ErrnoError(errno, "capabilities");
  int error = 0;
  for (int cap = 0; cap < 64; ++cap) {
    if (!kept.Has(cap)) continue;
    cap_value_t value = cap;
    if (::cap_set_flag(caps, CAP_PERMITTED, 1, &value, CAP_SET) != 0 || ::cap_set_flag(caps, CAP_EFFECTIVE, 1, &value, CAP_SET) != 0) error = errno;
  }
  if (!error && ::cap_set_proc(caps) != 0) error = errno;
  ::cap_free(caps);
  if (!error && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) error = errno;
  return error ? ErrnoError(error, "give up capabilities") : OkStatus();
}

}  // namespace brink
