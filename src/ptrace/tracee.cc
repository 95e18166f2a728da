#include "ptrace/tracee.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace brink::ptrace {
namespace {

// Codes and layout of the kernel's siginfo that the C library of Debian 12 does not name.
constexpr int kTrapPerf = 6;
constexpr uint32_t kPerfAsync = 1;
struct RawSiginfo {
  int32_t signo, error, code, pad;
  uint64_t address;
  uint64_t perf_data;
  uint32_t perf_type;
  uint32_t perf_flags;
  uint8_t rest[88];
};
static_assert(sizeof(RawSiginfo) == 128);

// A short /proc file into `out`, as text. False where the thread is gone.
bool ReadProc(pid_t tid, const char* name, char* out, size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", tid, name);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = ::read(fd, out, size - 1);
  ::close(fd);
  if (n <= 0) return false;
  out[n] = 0;
  return true;
}

uint64_t HexField(const char* text, const char* name) {
  const char* at = std::strstr(text, name);
  return at ? std::strtoull(at + std::strlen(name), nullptr, 16) : 0;
}

uint64_t DecimalField(const char* text, const char* name) {
  const char* at = std::strstr(text, name);
  return at ? std::strtoull(at + std::strlen(name), nullptr, 10) : 0;
}

}  // namespace

size_t ProcessMemory::Read(uint64_t address, void* out, size_t size) {
  struct iovec local = {out, size};
  struct iovec remote = {reinterpret_cast<void*>(address), size};
  ssize_t n = ::process_vm_readv(tid_, &local, 1, &remote, 1, 0);
  if (n > 0) return static_cast<size_t>(n);
  // Pages that may be executed but not read are open to ptrace only.
  size_t done = 0;
  while (done < size) {
    errno = 0;
    long word = ::ptrace(PTRACE_PEEKTEXT, tid_, address + done, nullptr);
    if (errno != 0) break;
    size_t part = std::min(sizeof word, size - done);
    std::memcpy(static_cast<char*>(out) + done, &word, part);
    done += part;
  }
  return done;
}

bool ProcessMemory::Write(uint64_t address, const void* data, size_t size) {
  struct iovec local = {const_cast<void*>(data), size};
  struct iovec remote = {reinterpret_cast<void*>(address), size};
  return ::process_vm_writev(tid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool Ask(int request, pid_t tid, uintptr_t address, void* data) {
  const auto ask = [&] { return ::ptrace(static_cast<__ptrace_request>(request), tid, address, data) == 0; };
  return ask() || (errno != ESRCH && ask());
}

TrapKind ClassifyTrap(pid_t tid) {
  RawSiginfo info = {};
  if (!Ask(PTRACE_GETSIGINFO, tid, 0, &info)) return TrapKind::kUnexplained;
  if (info.signo != SIGTRAP) return TrapKind::kForeign;
  switch (info.code) {
    case kTrapPerf:
      if (info.perf_data != kTickCookie) return TrapKind::kForeign;
      return info.perf_flags & kPerfAsync ? TrapKind::kLateTick : TrapKind::kTick;
    case TRAP_TRACE: return TrapKind::kStep;
    case TRAP_HWBKPT: return TrapKind::kBreakpoint;
#ifdef __aarch64__
    case TRAP_BRKPT: return TrapKind::kForeign;  // what a breakpoint instruction has there
#else
    case TRAP_BRKPT: return TrapKind::kUnexplained;  // a breakpoint instruction has SI_KERNEL
#endif
    case SIGTRAP: return TrapKind::kHandler;
    default: return TrapKind::kForeign;
  }
}

bool GetSignalMask(pid_t tid, uint64_t* out) { return Ask(PTRACE_GETSIGMASK, tid, sizeof *out, out); }
bool SetSignalMask(pid_t tid, uint64_t mask) { return Ask(PTRACE_SETSIGMASK, tid, sizeof mask, &mask); }

bool ReadSignalStatus(pid_t tid, SignalStatus* out) {
  char text[4096];
  if (!ReadProc(tid, "status", text, sizeof text)) return false;
  const char* tgid = std::strstr(text, "\nTgid:");
  if (!tgid) return false;
  out->tgid = std::atoi(tgid + 6);
  if (const char* state = std::strstr(text, "\nState:\t")) out->state = state[8];
  out->switches = DecimalField(text, "\nvoluntary_ctxt_switches:") + DecimalField(text, "\nnonvoluntary_ctxt_switches:");
  out->pending = HexField(text, "\nSigPnd:") | HexField(text, "\nShdPnd:");
  out->blocked = HexField(text, "\nSigBlk:");
  out->ignored = HexField(text, "\nSigIgn:");
  out->caught = HexField(text, "\nSigCgt:");
  return true;
}

int LastCpu(pid_t tid) {
  char text[1024];
  if (!ReadProc(tid, "stat", text, sizeof text)) return -1;
  // Field 39; the second field is in parentheses and may hold anything.
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at && field < 39; ++field) at = std::strchr(at + 1, ' ');
  return at ? std::atoi(at + 1) : -1;
}

void JoinCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

bool InSyscall(pid_t tid) {
  char text[256];
  return ReadProc(tid, "syscall", text, sizeof text) && text[0] >= '0' && text[0] <= '9';
}

StatusOr<int> OpenTick(pid_t tid, uint64_t period_ns, uint64_t at) {
  struct perf_event_attr attr = {};
  attr.type = PERF_TYPE_SOFTWARE;
  attr.size = sizeof attr;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.sample_period = period_ns;
  if (at) {
    attr.type = PERF_TYPE_BREAKPOINT;
    attr.config = 0;
    attr.bp_type = HW_BREAKPOINT_X;
    attr.bp_addr = at;
    attr.bp_len = sizeof(long);
    attr.sample_period = 1;
  }
  attr.exclude_kernel = 1;  // a stop inside a system call would end it with EINTR
  attr.exclude_hv = 1;
  attr.sigtrap = 1;
  attr.remove_on_exec = 1;
  attr.sig_data = kTickCookie;
  int fd = static_cast<int>(::syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC));
  if (fd < 0) return ErrnoError(errno, at ? "cannot set the breakpoint that stops the thread (the CPU has four)" : "cannot open the clock event that stops the thread (kernel 5.13 or newer)");
  return fd;
}

}  // namespace brink::ptrace
