#include "exact_recording.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <map>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "elf/file.h"
#include "perfdata/writer.h"
#include "report/disasm.h"

namespace brink::testing_report {
namespace {

#if defined(__x86_64__)

using perfdata::RecordBatch;
using perfdata::Writer;

constexpr unsigned kPenalty = 15;  // cycles that a misprediction adds to what follows

class Stepper {
 public:
  explicit Stepper(const ExactOptions& options) : options_(options) {}
  ~Stepper() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  StatusOr<ExactCounts> Run() {
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(OpenWriter());
    RecordBatch batch(*writer_);
    for (unsigned window = 0; window < options_.windows; ++window) {
      if (!RunFreely()) break;
      if (window == 0) RETURN_IF_ERROR(WriteMaps(batch));
      std::vector<brink_branch> stack;
      if (!StepWindow(&stack)) break;
      RETURN_IF_ERROR(WriteStack(batch, stack));
      RETURN_IF_ERROR(batch.Add([&](auto out) { return perfdata::RecordEncoder::FinishedRound(out, time_); }));
    }
    RETURN_IF_ERROR(batch.Flush());
    RETURN_IF_ERROR(writer_->Finish(build_ids_));
    if (counts_.samples == 0) return Unavailable("the program ended before the first window");
    return counts_;
  }

 private:
  Status Start() {
    pid_ = fork();
    if (pid_ == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      std::vector<char*> argv;
      for (const std::string& word : options_.command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      int null = open("/dev/null", O_WRONLY);
      dup2(null, 1);
      execv(argv[0], argv.data());
      _exit(127);
    }
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) {
      pid_ = -1;
      return Unavailable("cannot trace " + options_.command[0]);
    }
    // It never ends by itself: not beyond a test that was killed.
    ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL);
    return OkStatus();
  }

  Status OpenWriter() {
    ASSIGN_OR_RETURN(auto sink, perfdata::OpenFileSink(options_.output));
    perfdata::EventSpec event;
    event.name = "cpu-clock:u";
    event.attr.type = 1;
    event.attr.sample_period = 1000000;
    event.attr.sample_type = perfdata::kSampleIdentifier | perfdata::kSampleIp | perfdata::kSampleTid | perfdata::kSampleTime |
                             perfdata::kSamplePeriod | perfdata::kSampleBranchStack;
    event.attr.branch_sample_type = perfdata::kBranchUser | perfdata::kBranchAny | perfdata::kBranchTypeSave;
    event.attr.flags = perfdata::kAttrSampleIdAll | perfdata::kAttrMmap | perfdata::kAttrMmap2 | perfdata::kAttrComm | perfdata::kAttrCommExec | perfdata::kAttrExcludeKernel;
    perfdata::WriterOptions options;
    options.events.push_back(event);
    options.features = perfdata::CollectHostFeatures();
    options.features.cmdline = options_.command;
    ASSIGN_OR_RETURN(writer_, Writer::Create(std::move(sink), std::move(options)));
    return OkStatus();
  }

  // Lets the program run for a while and stops it again.
  bool RunFreely() {
    if (ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) return false;
    // Of uneven length, so that no loop of the program keeps in step with the windows.
    uint64_t gap_us = options_.gap_us + options_.gap_us * (counts_.samples * 7 % 11) / 11;
    RunFor((gap_us + 2000 * (counts_.samples == 0)) * 1000);
    kill(pid_, SIGSTOP);
    int status = 0;
    return waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status);
  }

  // By its own CPU time: a busy machine may not have let it run at all. Returns too when it does not get on.
  void RunFor(uint64_t ns) {
    clockid_t clock;
    timespec time;
    if (clock_getcpuclockid(pid_, &clock) != 0) return;
    auto used = [&] { return clock_gettime(clock, &time) == 0 ? static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec) : UINT64_MAX; };
    const uint64_t before = used();
    for (int i = 0; i < 20'000; ++i) {
      usleep(options_.gap_us);
      uint64_t now = used();
      if (now == UINT64_MAX || now - before >= ns) return;
      siginfo_t info = {};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 || info.si_pid) return;
    }
  }

  bool StepOne() {
    if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0) return false;
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) return false;
    return true;
  }

  std::optional<report::Instruction> InstructionAt(uint64_t ip) {
    auto [it, fresh] = code_.try_emplace(ip);
    if (!fresh) return it->second;
    char bytes[report::kMaxInstruction];
    iovec local{bytes, sizeof bytes}, remote{reinterpret_cast<void*>(ip), sizeof bytes};
    ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (n > 0) it->second = report::DecodeOne(std::string_view(bytes, static_cast<size_t>(n)), ip, EM_X86_64);
    return it->second;
  }

  bool StepWindow(std::vector<brink_branch>* stack) {
    user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid_, nullptr, &regs) != 0) return false;
    uint64_t ip = regs.rip;
    unsigned instructions = 0;
    for (unsigned steps = 0; stack->size() < options_.depth && steps < 20000; ++steps) {
      auto instruction = InstructionAt(ip);
      if (!StepOne() || ptrace(PTRACE_GETREGS, pid_, nullptr, &regs) != 0) return false;
      ++instructions;
      // rep string instructions stop at each iteration; system calls come back behind themselves.
      if (instruction && instruction->branch && instruction->kind != Kind::kSyscall && regs.rip != ip + instruction->length) {
        stack->insert(stack->begin(), Entry(ip, regs.rip, instruction->kind, instructions));
        instructions = 0;
        if (stack->front().info & 1) instructions = kPenalty;
      } else if (instruction && instruction->kind == Kind::kCond && !Predict(ip, false)) {
        instructions += kPenalty;
      }
      ip = regs.rip;
    }
    ip_ = ip;
    return !stack->empty();
  }

  // Two-bit saturating counter, weakly not taken at first. True: it guessed right.
  bool Predict(uint64_t ip, bool taken) {
    int& state = counters_.try_emplace(ip, 1).first->second;
    bool right = (state >= 2) == taken;
    state = taken ? std::min(state + 1, 3) : std::max(state - 1, 0);
    return right;
  }

  brink_branch Entry(uint64_t from, uint64_t to, Kind kind, unsigned instructions) {
    brink_branch branch{from, to, options_.kinds ? MakeInfo(kind) : 0};
    bool right = kind != Kind::kCond || Predict(from, true);
    if (options_.predictions) branch.info |= right ? 2 : 1;
    if (options_.cycles) branch.info |= uint64_t{std::min(instructions, 65535u)} << 4;
    mispredicted_now_ += options_.predictions && !right;
    return branch;
  }

  Status WriteMaps(RecordBatch& batch) {
    const perfdata::SampleId id{.pid = Pid(), .tid = Pid(), .time = ++time_, .id = writer_->id()};
    std::string comm = options_.command[0].substr(options_.command[0].rfind('/') + 1).substr(0, 15);
    RETURN_IF_ERROR(batch.Add([&](auto out) { return writer_->encoder().Comm(out, Pid(), Pid(), comm, true, id); }));
    ASSIGN_OR_RETURN(std::string maps, ReadFile("/proc/" + std::to_string(pid_) + "/maps"));
    for (std::string_view line : Split(maps, '\n')) {
      unsigned long long start, end, offset;
      char permissions[8] = {}, path[512] = {};
      if (std::sscanf(std::string(line).c_str(), "%llx-%llx %7s %llx %*s %*s %511[^\n]", &start, &end, permissions, &offset, path) < 4) continue;
      if (permissions[2] != 'x') continue;
      std::string_view name = path[0] ? path : "//anon";
      perfdata::Mmap2Fields mmap{.pid = Pid(), .tid = Pid(), .start = start, .length = end - start, .pgoff = offset, .prot = 5, .flags = 2, .filename = name};
      auto file = elf::File::Open(path);
      std::string build_id = file.ok() ? file->BuildId().value_or("").substr(0, 20) : "";
      mmap.build_id = build_id;
      if (!build_id.empty()) build_ids_.push_back({.build_id = build_id, .filename = std::string(name)});
      RETURN_IF_ERROR(batch.Add([&](auto out) { return writer_->encoder().Mmap2(out, mmap, id); }));
    }
    return OkStatus();
  }

  Status WriteStack(RecordBatch& batch, const std::vector<brink_branch>& stack) {
    perfdata::SampleFields sample{.ip = ip_, .pid = Pid(), .tid = Pid(), .id = writer_->id(), .period = 1000000, .branches = stack};
    for (unsigned i = 0; i < options_.repeat; ++i) {
      sample.time = time_ += 1000;
      RETURN_IF_ERROR(batch.Add([&](auto out) { return writer_->encoder().Sample(out, sample); }));
      ++counts_.samples;
      counts_.branches += stack.size();
      counts_.mispredicted += mispredicted_now_;
    }
    mispredicted_now_ = 0;
    return OkStatus();
  }

  uint32_t Pid() const { return static_cast<uint32_t>(pid_); }

  const ExactOptions& options_;
  pid_t pid_ = -1;
  std::unique_ptr<Writer> writer_;
  std::vector<perfdata::BuildIdEntry> build_ids_;
  ExactCounts counts_;
  std::map<uint64_t, std::optional<report::Instruction>> code_;
  std::map<uint64_t, int> counters_;
  uint64_t time_ = 1000, ip_ = 0, mispredicted_now_ = 0;
};

#endif

}  // namespace

StatusOr<ExactCounts> RecordExactly(const ExactOptions& options) {
#if defined(__x86_64__)
  return Stepper(options).Run();
#else
  (void)options;
  return Unavailable("single stepping is written for x86-64 only");
#endif
}

}  // namespace brink::testing_report
