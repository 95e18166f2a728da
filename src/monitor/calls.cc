#include "monitor/calls.h"

#include <array>

#include "base/strings.h"
#include "snap/syscalls.h"

namespace brink::cfi {
namespace {

struct Row {
  const char* names;  // blanks between
  uint8_t how;
};
constexpr uint8_t kEnter = BRINK_CFI_AT_ENTER | BRINK_CFI_FIRST;
// What an attacker wants of the kernel. Not walked across: rt_sigreturn and exit, which do not come back; clone, whose
// child comes back elsewhere.
constexpr Row kSensitive[] = {
    {"execve execveat", kEnter | BRINK_CFI_FAILS},
    {"mprotect pkey_mprotect", kEnter | BRINK_CFI_AT_EXIT | BRINK_CFI_IF_EXEC},
    {"mmap", kEnter | BRINK_CFI_AT_EXIT | BRINK_CFI_IF_EXEC | BRINK_CFI_POINTER},
    {"ptrace process_vm_writev memfd_create", kEnter},
    {"setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset", kEnter},
    {"connect bind accept4 socket", kEnter},
    {"init_module finit_module delete_module kexec_load bpf perf_event_open userfaultfd", kEnter},
    {"unshare setns chroot mount umount2 pivot_root", kEnter},
    {"chmod fchmod fchmodat chown fchown fchownat lchown", kEnter},
    {"dup2 dup3 kill io_uring_setup io_uring_enter", kEnter},
    {"rt_sigreturn", kEnter | BRINK_CFI_SIGRETURN},
};
// What brings input in, and what a thread sleeps in.
constexpr Row kInput[] = {
    {"read pread64 readv preadv preadv2 recvfrom recvmsg recvmmsg accept", BRINK_CFI_AT_EXIT},
    {"poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2", BRINK_CFI_AT_EXIT},
    {"futex nanosleep clock_nanosleep wait4 waitid rt_sigtimedwait msgrcv semop semtimedop io_getevents", BRINK_CFI_AT_EXIT},
};

// Calls that write user memory, where a walk from the entry may read what they are about to write over.
constexpr const char* kWriting =
    "read pread64 readv preadv preadv2 recvfrom recvmsg recvmmsg accept accept4 getsockname getpeername getsockopt poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 wait4 waitid rt_sigtimedwait msgrcv io_getevents "
    "io_uring_setup io_uring_enter ptrace bpf perf_event_open process_vm_readv pipe pipe2 socketpair getrandom getcwd readlink readlinkat stat fstat lstat newfstatat statx getdents64 nanosleep clock_nanosleep clock_gettime "
    "gettimeofday sigaltstack rt_sigaction rt_sigprocmask prctl arch_prctl ioctl fcntl sysinfo uname times getrusage";

// What such an entry says is confirmed at the call's end, or it is not.
// Of sensitive calls also where entries are judged by recorded branches: a switch may have emptied these.
void ConfirmAtExit(Entries entries, brink_cfi_config* config) {
  const uint8_t which = entries == Entries::kWalked ? BRINK_CFI_AT_ENTER : BRINK_CFI_FIRST;
  for (uint32_t number = 0; number < BRINK_CFI_CALLS; ++number) {
    if ((config->call[number] & which) && WritesMemory(number)) config->call[number] |= BRINK_CFI_WRITES | BRINK_CFI_AT_EXIT;
  }
}

void AddRows(std::span<const Row> rows, brink_cfi_config* config) {
  for (const Row& row : rows) {
    for (std::string_view name : Split(row.names, ' ')) {
      auto number = snap::SyscallByName(name);  // other architectures lack some
      if (number && *number < BRINK_CFI_CALLS) config->call[*number] |= row.how;
    }
  }
}

}  // namespace

StatusOr<CallSet> ParseCallSet(std::string_view text) {
  if (text == "none") return CallSet::kNone;
  if (text == "sensitive") return CallSet::kSensitive;
  if (text == "all") return CallSet::kAll;
  return InvalidArgument("--check is sensitive, all or none, not '" + EscapeForTerminal(text) + "'");
}

std::vector<std::string> CallNames(CallSet set) {
  std::vector<std::string> names;
  auto add = [&](std::span<const Row> rows) {
    for (const Row& row : rows) {
      for (std::string_view name : Split(row.names, ' ')) names.emplace_back(name);
    }
  };
  if (set != CallSet::kNone) add(kSensitive);
  if (set == CallSet::kAll) add(kInput);
  return names;
}

Status ChooseCalls(CallSet set, const std::vector<std::string>& changes, Entries entries, brink_cfi_config* config) {
  if (set != CallSet::kNone) AddRows(kSensitive, config);
  if (set == CallSet::kAll) AddRows(kInput, config);
  for (const std::string& list : changes) {
    for (std::string_view word : Split(list, ',')) {
      const bool away = word.starts_with('-');
      if (away || word.starts_with('+')) word.remove_prefix(1);
      const size_t colon = word.find(':');
      const std::string_view name = word.substr(0, colon), where = colon == word.npos ? "enter" : word.substr(colon + 1);
      auto number = snap::SyscallByName(name);
      if (!number || *number >= BRINK_CFI_CALLS) {
        std::string near;
        for (const std::string& other : NearestNames(name, snap::SyscallNames())) near += (near.empty() ? "; nearest: " : ", ") + other;
        return InvalidArgument("--calls: no system call '" + EscapeForTerminal(name) + "'" + near);
      }
      if (!away && (name == "rt_sigreturn" || name == "exit" || name == "exit_group" || name == "clone" || name == "clone3" || name == "vfork" || name == "fork")) {
        return InvalidArgument("--calls: " + std::string(name) + " is not walked across: the thread does not come back there");
      }
      uint8_t& how = config->call[*number];
      if (away) how = 0;
      else if (where == "enter") how |= BRINK_CFI_AT_ENTER;
      else if (where == "exit") how |= BRINK_CFI_AT_EXIT;
      else if (where == "both") how |= BRINK_CFI_AT_ENTER | BRINK_CFI_AT_EXIT;
      else return InvalidArgument("--calls: '" + EscapeForTerminal(word) + "': say NAME, NAME:exit, NAME:both or -NAME");
    }
  }
  ConfirmAtExit(entries, config);
  return OkStatus();
}

bool IsSensitive(uint32_t nr) {
  static const brink_cfi_config* const kSet = [] {
    auto* set = new brink_cfi_config{};
    AddRows(kSensitive, set);
    return set;
  }();
  return nr < BRINK_CFI_CALLS && kSet->call[nr];
}

bool WritesMemory(uint32_t nr) {
  static const auto* const kNumbers = [] {
    auto* numbers = new std::array<bool, BRINK_CFI_CALLS>{};
    for (std::string_view name : Split(kWriting, ' ')) {
      if (auto number = snap::SyscallByName(name); number && *number < BRINK_CFI_CALLS) (*numbers)[*number] = true;
    }
    return numbers;
  }();
  return nr < BRINK_CFI_CALLS && (*kNumbers)[nr];
}

}  // namespace brink::cfi
