#include <cerrno>
#include <memory>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "confine/confine.h"

namespace brink {
namespace {

// What reading, computing with threads, and writing take. By name: one that an architecture or the library lacks is skipped.
constexpr const char* kAllowed[] = {
    // files
    "read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev", "pwritev", "open", "openat", "openat2", "close", "close_range",
    "fstat", "stat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "lseek", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
    "getcwd", "getdents64", "dup", "dup2", "dup3", "fcntl", "flock", "ftruncate", "fallocate", "fsync", "fdatasync", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "fchmod", "umask", "copy_file_range", "sendfile", "splice", "pipe2", "fadvise64",
    // memory
    "munmap", "mremap", "madvise", "brk", "mincore", "mlock", "munlock", "membarrier",
    // threads and time
    "futex", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "exit", "exit_group", "sched_yield", "sched_getaffinity",
    "sched_getparam", "sched_getscheduler", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getcpu",
    // signals to itself, waiting, identity
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "sigaltstack", "restart_syscall",
    "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "signalfd4", "timerfd_create",
    "timerfd_settime", "timerfd_gettime", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getrandom", "getrusage", "times",
    "uname", "sysinfo", "prctl", "arch_prctl", "sendmsg", "recvmsg", "wait4"};

// Neither a program that reads a recording nor a running collector asks for these: who does has taken the process over.
constexpr const char* kDeadly[] = {"execve", "execveat", "ptrace", "process_vm_writev", "pidfd_getfd", "init_module", "finit_module", "delete_module",
                                   "kexec_load", "kexec_file_load", "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "setuid", "setgid",
                                   "setreuid", "setresuid", "setgroups", "keyctl", "add_key", "userfaultfd", "io_uring_setup", "open_by_handle_at",
                                   "reboot", "swapon", "fsopen", "move_mount", "personality"};
// A collector needs these; a reader does not.
constexpr const char* kDeadlyToReaders[] = {"fork", "vfork", "bpf", "perf_event_open", "process_vm_readv", "socket", "connect", "bind", "listen",
                                            "kill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal", "capset"};

constexpr bool kSanitizer = BRINK_SANITIZED;  // their run time forks and traces itself at the end

Status Add(scmp_filter_ctx filter, uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> conditions = {}) {
  int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return OkStatus();
  int error = seccomp_rule_add_array(filter, action, number, static_cast<unsigned>(conditions.size()), conditions.begin());
  // A pseudo call of another architecture, and a rule equal to the default action: nothing to add.
  if (error == -EDOM || error == -EACCES || error == -EINVAL) return OkStatus();
  return error == 0 ? OkStatus() : ErrnoError(-error, std::string("seccomp: ") + name);
}

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

StatusOr<Filter> NewFilter(uint32_t otherwise) {
  if (kSanitizer) return FailedPrecondition("a sanitizer's build needs the system calls");
  Filter filter(seccomp_init(otherwise), &seccomp_release);
  if (!filter) return Unavailable("seccomp: no filter could be made");
  return filter;
}

Status Load(const Filter& filter) {
  int error = seccomp_load(filter.get());
  return error == 0 ? OkStatus() : ErrnoError(-error, "seccomp");
}

}  // namespace

Status LimitCollector() {
  ASSIGN_OR_RETURN(Filter filter, NewFilter(SCMP_ACT_ALLOW));
  for (const char* name : kDeadly) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_KILL_PROCESS, name));
  for (int family : {AF_INET, AF_INET6, AF_PACKET}) {
    RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_KILL_PROCESS, "socket", {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(family))}));
  }
  return Load(filter);
}

Status LimitSystemCalls() {
  ASSIGN_OR_RETURN(Filter filter, NewFilter(SCMP_ACT_ERRNO(ENOSYS)));
  for (const char* name : kAllowed) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, name));
  for (const char* name : kDeadly) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_KILL_PROCESS, name));
  for (const char* name : kDeadlyToReaders) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_KILL_PROCESS, name));
  // Threads, not processes: clone3 hides its flags behind a pointer, and the C library goes back to clone on ENOSYS.
  RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)}));
  // Memory that is code is what every second step of an attack asks for.
  for (const char* name : {"mmap", "mprotect"}) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, name, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)}));
  // What the terminal is, not what it is fed with (TIOCSTI).
  for (uint64_t request : {TCGETS, TIOCGWINSZ, FIONREAD}) RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, "ioctl", {SCMP_A1(SCMP_CMP_EQ, request)}));
  RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, "tgkill", {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(::getpid()))}));
  // The process's own limits may be read, not those of others set.
  RETURN_IF_ERROR(Add(filter.get(), SCMP_ACT_ALLOW, "prlimit64", {SCMP_A2(SCMP_CMP_EQ, 0)}));
  return Load(filter);
}

}  // namespace brink
