// uprobes on a function of this very binary.
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/bpf.h>

#include "base/thread.h"
#include "kernel/uprobe_multi.h"
#include "probe/bpf_trial.h"
#include "probe/known_loop.h"

namespace brink::probe {
namespace {

void CallTarget() {
  for (int i = 0; i < 4; ++i) brink_probe_target(i);
}

StatusOr<Attached> AttachUprobe(bpf_program* program, bool retprobe, pid_t pid) {
  ASSIGN_OR_RETURN(FilePlace place, PlaceOf(reinterpret_cast<const void*>(&brink_probe_target)));
  Attached attached;
  attached.link.reset(bpf_program__attach_uprobe(program, retprobe, pid, place.path.c_str(), place.offset));
  if (!attached.link) return ErrnoError(errno, "uprobe");
  return attached;
}

Finding UprobeCause(const TrialError& error) {
  if (std::string_view(error.stage) != "attach") return {};
  if (::access("/sys/bus/event_source/devices/uprobe/type", F_OK) != 0) return Finding::Off("this kernel is built without uprobes");
  // Since the fix of CVE-2025-38466 the uprobe PMU asks for CAP_SYS_ADMIN.
  if (error.error == EACCES || error.error == EPERM) {
    return Finding::Off("this kernel asks for CAP_SYS_ADMIN to set a uprobe", "run as root, or use a kernel with uprobe_multi");
  }
  return {};
}

StatusOr<Attached> AttachUprobeMulti(bpf_program* program) {
  ASSIGN_OR_RETURN(FilePlace place, PlaceOf(reinterpret_cast<const void*>(&brink_probe_target)));
  LinkCreateUprobeMulti create = {};
  create.prog_fd = static_cast<uint32_t>(bpf_program__fd(program));
  create.attach_type = kTraceUprobeMulti;
  create.path = reinterpret_cast<uint64_t>(place.path.c_str());
  create.offsets = reinterpret_cast<uint64_t>(&place.offset);
  create.cnt = 1;
  create.pid = static_cast<uint32_t>(::getpid());
  long fd = ::syscall(SYS_bpf, BPF_LINK_CREATE, &create, sizeof create);
  if (fd < 0) return ErrnoError(errno, "uprobe_multi");
  Attached attached;
  attached.fd.Reset(static_cast<int>(fd));
  return attached;
}

// Lets write, exit and signal return pass and kills for the rest, as a strict sandbox does.
bool EnterSeccomp() {
  const uint32_t allowed[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn};
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (size_t i = 0; i < std::size(allowed); ++i) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], static_cast<uint8_t>(std::size(allowed) - i), 0));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Waits for the go, then calls the probed function under seccomp.
int SandboxedChild(int go_fd) {
  char byte;
  if (::read(go_fd, &byte, 1) != 1 || !EnterSeccomp()) return 2;
  CallTarget();
  return 0;
}

}  // namespace

Finding ProbeBpfUprobe(Prober& prober) {
  auto attach = [](bpf_program* program) { return AttachUprobe(program, false, ::getpid()); };
  return FindingOf(prober, RunTrial({.program = "on_uprobe", .attach = attach, .trigger = CallTarget}), UprobeCause);
}

Finding ProbeBpfUretprobe(Prober& prober) {
  auto attach = [](bpf_program* program) { return AttachUprobe(program, true, ::getpid()); };
  return FindingOf(prober, RunTrial({.program = "on_uretprobe", .attach = attach, .trigger = CallTarget}), UprobeCause);
}

// Kernels of early 2025 killed such processes: the uretprobe system call met the target's filter
// (https://github.com/systemd/systemd/issues/34615).
Finding ProbeBpfUretprobeSeccomp(Prober& prober) {
  if (!prober.Has(Feature::kBpfUretprobe)) return OffBecauseOf(prober, Feature::kBpfUretprobe);
  int go[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return Finding::Off("no pipe: " + ErrnoText(errno));
  UniqueFd go_read(go[0]), go_write(go[1]);
  // Forked before the link exists: a child would keep it attached.
  pid_t child = ::fork();
  if (child < 0) return Finding::Off("no child: " + ErrnoText(errno));
  if (child == 0) ::_exit(SandboxedChild(go_read.get()));
  int status = -1;
  Trial trial{.program = "on_child_uretprobe"};
  trial.attach = [&](bpf_program* program) { return AttachUprobe(program, true, child); };
  trial.trigger = [&] {
    if (::write(go_write.get(), "g", 1) == 1) ::waitpid(child, &status, 0);
  };
  TrialResult result = RunTrial(trial);
  if (status == -1) {
    go_write.Reset();
    ::waitpid(child, nullptr, 0);
  } else if (WIFSIGNALED(status)) {
    return Finding::Off("a return uprobe kills a process under seccomp on this kernel", "do not put return uprobes into sandboxed programs; update the kernel");
  }
  return FindingOf(prober, result, UprobeCause);
}

namespace {

TrialResult TryUprobeMulti(std::function<void()> trigger) {
  Trial trial{.program = "on_uprobe_multi", .attach = AttachUprobeMulti, .trigger = std::move(trigger)};
  trial.prepare = [](bpf_program* program) { bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kTraceUprobeMulti)); };
  return RunTrial(trial);
}

}  // namespace

Finding ProbeBpfUprobeMulti(Prober& prober) {
  return FindingOf(prober, TryUprobeMulti(CallTarget), [](const TrialError& error) {
    if (error.error == EINVAL) return Finding::Off("this kernel does not have it (6.6 and later do)", "single uprobes are used instead, at most 64");
    return Finding{};
  });
}

// Before 6.10 the kernel compared the thread with the leader (46ba0e49b642): the others passed unseen.
Finding ProbeBpfUprobeMultiProcess(Prober& prober) {
  if (!prober.Has(Feature::kBpfUprobeMulti)) return OffBecauseOf(prober, Feature::kBpfUprobeMulti);
  auto in_a_thread = [] {
    auto thread = StartThread("a thread that meets a probe", CallTarget);
    if (thread.ok()) thread->join();
  };
  const Finding found = FindingOf(prober, TryUprobeMulti(in_a_thread));
  return found.on ? found : Finding::Off("probes of one process are met by its leader only (before 6.10)", "probes of containers are set for everybody");
}

}  // namespace brink::probe
