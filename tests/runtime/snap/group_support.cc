#include "group_support.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel/cgroup_hierarchies.h"
#include "support/features.h"

// Not of the file that calls it: the compiler would call a copy of its own making. Begins with a plain move: the kernel sets no probe
// at a locked instruction.
extern "C" __attribute__((noinline)) void SnapOthersCalled(std::atomic<uint64_t>* calls) {
  const uint64_t before = calls->load(std::memory_order_relaxed);
  calls->store(before + 1, std::memory_order_relaxed);
}

namespace brink::snap_tests {

std::optional<uint64_t> RunsOf(pid_t pid, uint64_t wanted) {
  std::optional<uint64_t> sum;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo")) {
    std::ifstream file(entry.path());
    uint64_t type = 0, value = 0;
    for (std::string name; file >> name;) {
      if (name == "prog_type:") file >> type;
      if (name == "run_cnt:" && file >> value && type == wanted) sum = sum.value_or(0) + value;
    }
  }
  return sum;
}

uint64_t RunsOfProbes(pid_t pid) { return RunsOf(pid, BPF_PROG_TYPE_KPROBE).value_or(0); }

void GroupsTest::SetUp() {
  SKIP_UNLESS("cgroup.events");
  const std::string own = CgroupHierarchies::Read().PerfEventFolder();
  for (const char* name : {"wanted", "other"}) {
    groups_.push_back(own + "/brink_others_" + name + "_" + std::to_string(getpid()));
    ASSERT_EQ(mkdir(groups_.back().c_str(), 0755), 0) << groups_.back();
  }
  bpf_attr attr = {};
  attr.enable_stats.type = BPF_STATS_RUN_TIME;
  stats_ = static_cast<int>(syscall(SYS_bpf, BPF_ENABLE_STATS, &attr, sizeof(attr)));
  ASSERT_GE(stats_, 0);
}

void GroupsTest::TearDown() {
  if (stats_ >= 0) close(stats_);
  for (const std::string& group : groups_) {
    for (int i = 0; i < 500 && rmdir(group.c_str()) != 0 && errno == EBUSY; ++i) usleep(10'000);  // a child of a child may be ending
  }
}

Calling::Calling(const std::string& group, How how, const std::string& to)
    : calls_(static_cast<std::atomic<uint64_t>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  int go[2];
  if (pipe(go) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) {
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(1);  // not before it is in its group
    Body(how, to);
  }
  Enter(group);
  if (write(go[1], "g", 1) != 1) std::abort();
  close(go[0]);
  close(go[1]);
}

Calling::~Calling() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  munmap(calls_, 4096);
}

void Calling::Enter(const std::string& group) const { std::ofstream(group + "/cgroup.procs") << pid_; }

void Calling::Wait(uint64_t more) const {
  const uint64_t until = *calls_ + more;
  for (int i = 0; *calls_ < until; ++i) {
    usleep(1000);
    if (i < 60'000) continue;
    ADD_FAILURE() << "no calls for a minute";
    return;
  }
}

void Calling::Call(int times) const {
  for (int i = 0; i < times; ++i) {
    SnapOthersCalled(calls_);
    usleep(1000);
  }
  _exit(0);
}

void Calling::Body(How how, const std::string& to) const {
  constexpr int kForEver = INT32_MAX;
  if (how == How::kSelf) Call(kForEver);
  if (how == How::kThread) {
    std::thread([this] { Call(kForEver); }).join();
  }
  if (how == How::kClonedInto) {
    clone_args args = {};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<uint64_t>(open(to.c_str(), O_RDONLY | O_DIRECTORY));
    const long child = syscall(SYS_clone3, &args, sizeof(args));
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Call(kForEver);
    }
    waitpid(static_cast<pid_t>(child), nullptr, 0);
    _exit(1);
  }
  while (true) {
    const pid_t child = fork();
    if (child == 0) Call(200);
    waitpid(child, nullptr, 0);
  }
}

bool IsMet(pid_t brink, const Calling& calling) {
  const uint64_t before = RunsOfProbes(brink);
  for (int i = 0; i < 50 && RunsOfProbes(brink) <= before + 20; ++i) calling.Wait(100);
  return RunsOfProbes(brink) > before + 20;
}

}  // namespace brink::snap_tests
