#include "base/stop.h"
#include "truth.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <memory>
#include <set>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "disasm.h"

namespace brink::fidelity {
namespace {

using ptrace::TrapKind;

// Steps of one window; longer ones (rep strings of megabytes) are not judged.
constexpr uint32_t kMaxSteps = 400'000;

// The CPU's own way through one window.
class Stepper {
 public:
  explicit Stepper(pid_t tid, const ptrace::Regs& regs) : tid_(tid), regs_(regs), memory_(tid) {}

  enum class What { kBranch, kNoBranch, kDisturbed };
  // One instruction; `branch` is what it took.
  What Step(brink_branch* branch) {
    if (++steps_ > kMaxSteps) return What::kDisturbed;
    uint8_t bytes[decode::kMaxInsnBytes];
    size_t size = memory_.Read(regs_.ip, bytes, sizeof bytes);
    auto insn = decode::Decode({bytes, size}, regs_.ip);
    Note(regs_.ip);
    if (!insn || insn->flow == decode::Flow::kSyscall || insn->flow == decode::Flow::kOther) return What::kDisturbed;
    ptrace::Regs before = regs_;
    if (!StepOnce()) return What::kDisturbed;
    if (insn->pushes_flags) ptrace::HidePushedTrapFlag(tid_, regs_.sp());
    if (insn->flow == decode::Flow::kNext) {
      bool straight = regs_.ip == before.ip + insn->length || (insn->repeats && regs_.ip == before.ip);
      return straight ? What::kNoBranch : What::kDisturbed;
    }
    if (insn->flow == decode::Flow::kCond) {
      auto outcome = decode::Evaluate(*insn, before, memory_);
      BRINK_CHECK(outcome->next == regs_.ip);  // two decoders and one CPU: the condition table itself is tested here
      if (!outcome->branched) return What::kNoBranch;
    }
    *branch = {before.ip, regs_.ip, MakeInfo(decode::KindOf(insn->flow), Priv::kUser)};
    return What::kBranch;
  }

  uint64_t ip() const { return regs_.ip; }
  int pending_signal() const { return pending_signal_; }
  bool gone() const { return gone_; }

  std::string Trail() {
    std::string out;
    for (uint64_t ip : trail_) absl::StrAppend(&out, "    ", DisassembleAt(ip, memory_), "\n");
    return out;
  }

 private:
  void Note(uint64_t ip) {
    trail_.push_back(ip);
    if (trail_.size() > 60) trail_.pop_front();
  }

  bool StepOnce() {
    while (true) {
      if (::ptrace(PTRACE_SINGLESTEP, tid_, nullptr, nullptr) != 0) return false;
      int status = 0;
      if (::waitpid(tid_, &status, __WALL) != tid_ || !WIFSTOPPED(status)) {
        gone_ = true;
        return false;
      }
      int signal = WSTOPSIG(status);
      TrapKind kind = signal == SIGTRAP && status >> 16 == 0 ? ptrace::ClassifyTrap(tid_) : TrapKind::kForeign;
      if (kind == TrapKind::kTick || kind == TrapKind::kLateTick) continue;  // before the instruction
      if (kind == TrapKind::kStep || kind == TrapKind::kUnexplained) return ptrace::ReadRegs(tid_, &regs_);
      if (status >> 16 == 0) pending_signal_ = signal;
      return false;
    }
  }

  pid_t tid_;
  ptrace::Regs regs_;
  ptrace::ProcessMemory memory_;
  std::deque<uint64_t> trail_;
  uint32_t steps_ = 0;
  int pending_signal_ = 0;
  bool gone_ = false;
};

std::string Describe(const brink_branch& branch) {
  const auto& entry = static_cast<const BranchEntry&>(branch);
  return absl::StrFormat("%x -> %x %s", branch.from, branch.to, std::string(KindName(entry.kind())));
}

bool Same(const brink_branch& a, const brink_branch& b) {
  auto kind = [](const brink_branch& x) { return static_cast<const BranchEntry&>(x).kind(); };
  return a.from == b.from && a.to == b.to && kind(a) == kind(b);
}

std::string RegisterText(const ptrace::Regs& regs) {
  static const char* const kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  std::string out = absl::StrFormat("  ip %x flags %x fs %x gs %x\n ", regs.ip, regs.flags, regs.fs_base, regs.gs_base);
  for (int i = 0; i < 16; ++i) absl::StrAppendFormat(&out, " %s %x", kNames[i], regs.gpr[i]);
  return out + "\n";
}

enum class Verdict { kTrue, kWrong, kDisturbed };

// Steps through what was predicted. On kWrong `why` says what the CPU did instead.
Verdict Follow(Stepper& stepper, const Prediction& prediction, std::string* why) {
  auto next_branch = [&](brink_branch* branch) {
    Stepper::What what;
    while ((what = stepper.Step(branch)) == Stepper::What::kNoBranch) {
    }
    return what;
  };
  for (size_t i = 0; i < prediction.branches.size(); ++i) {
    brink_branch actual = {};
    if (next_branch(&actual) == Stepper::What::kDisturbed) return Verdict::kDisturbed;
    if (Same(actual, prediction.branches[i])) continue;
    *why = absl::StrFormat("branch %d of %d: predicted %s, the CPU took %s\n", i + 1, prediction.branches.size(),
                           Describe(prediction.branches[i]), Describe(actual));
    return Verdict::kWrong;
  }
  // The straight line up to the end that was claimed.
  while (stepper.ip() != prediction.end_ip) {
    brink_branch actual = {};
    auto what = stepper.Step(&actual);
    if (what == Stepper::What::kDisturbed) return Verdict::kDisturbed;
    if (what == Stepper::What::kNoBranch) continue;
    *why = absl::StrFormat("after all %d branches the end %x was claimed, the CPU took %s\n", prediction.branches.size(),
                           prediction.end_ip, Describe(actual));
    return Verdict::kWrong;
  }
  return Verdict::kTrue;
}

// One program under ptrace, from start to end.
class Run {
 public:
  Run(const Program& program, const Predictor& predict, const Options& options, std::mt19937_64* random, Tally* tally)
      : program_(program), predict_(predict), options_(options), random_(random), tally_(tally) {}
  ~Run() { KillAll(); }

  // Until enough windows are judged, the program ends or time is over.
  void Go(std::chrono::steady_clock::time_point deadline) {
    Start();
    while (tally_->windows < options_.windows && (tally_->windows < options_.least || std::chrono::steady_clock::now() < deadline)) {
      int status = 0;
      pid_t tid = ::waitpid(-1, &status, __WALL);
      if (tid < 0) return;
      if (!WIFSTOPPED(status)) {
        ticks_.erase(tid);
        if (ticks_.empty() && started_) return;
      } else {
        OnStop(tid, WSTOPSIG(status), status >> 16);
      }
    }
  }

 private:
  void Start() {
    int gate[2];
    BRINK_CHECK(::pipe2(gate, O_CLOEXEC) == 0);
    child_ = ::fork();
    BRINK_CHECK(child_ >= 0);
    if (child_ == 0) RunChild(gate[0], gate[1]);
    ::close(gate[0]);
    constexpr unsigned long kOptions = PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                                       PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    BRINK_CHECK(::ptrace(PTRACE_SEIZE, child_, nullptr, kOptions) == 0);
    ticks_[child_];
    ::close(gate[1]);
  }

  [[noreturn]] void RunChild(int gate, int other) {
    ::close(other);
    char byte;
    while (::read(gate, &byte, 1) < 0) {
    }
    ::setpgid(0, 0);
    int in = ::open(program_.stdin_path.empty() ? "/dev/null" : program_.stdin_path.c_str(), O_RDONLY | O_CLOEXEC);
    int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(in, 0);
    ::dup2(null, 1);
    ::dup2(null, 2);
    std::vector<char*> words;
    for (const std::string& word : program_.argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }

  void KillAll() {
    for (const auto& [tid, tick] : ticks_) ::kill(tid, SIGKILL);
    ticks_.clear();
    int status = 0;
    pid_t tid;
    while ((tid = ::waitpid(-1, &status, __WALL)) > 0) {
      if (WIFSTOPPED(status)) ::kill(tid, SIGKILL);  // a child of a child, just appearing
    }
  }

  void Arm(pid_t tid) {
    std::uniform_int_distribution<uint64_t> period(options_.min_period_ns, options_.max_period_ns);
    UniqueFd& tick = ticks_[tid];
    uint64_t value = period(*random_);
    if (tick.valid() && ::ioctl(tick.get(), PERF_EVENT_IOC_PERIOD, &value) == 0) return;
    auto opened = ptrace::OpenTick(tid, value);
    if (!opened.ok()) return;
    tick.Reset(*opened);
    if (options_.on_tick) options_.on_tick(*opened);
  }

  void OnStop(pid_t tid, int signal, int event) {
    int deliver = 0;
    if (event == PTRACE_EVENT_EXEC) {
      ++process_;
      started_ = true;
      ticks_[tid].Reset();
      Arm(tid);
    } else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
      ::ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);
      return;
    } else if (event == PTRACE_EVENT_STOP && !ticks_.contains(tid)) {
      Arm(tid);
    } else if (event == 0 && signal == SIGTRAP) {
      TrapKind kind = ptrace::ClassifyTrap(tid);
      if (kind == TrapKind::kTick) deliver = Window(tid);
      else if (kind == TrapKind::kForeign) deliver = signal;
      if (kind == TrapKind::kTick) Arm(tid);
    } else if (event == 0) {
      deliver = signal;
    }
    ::ptrace(PTRACE_CONT, tid, nullptr, static_cast<unsigned long>(deliver));
  }

  // Returns a signal that came in between and is to be delivered.
  int Window(pid_t tid) {
    ptrace::Regs regs;
    if (!ptrace::ReadRegs(tid, &regs) || !regs.is_64bit) return 0;
    int cpu = ptrace::LastCpu(tid);
    if (cpu >= 0) ptrace::JoinCpu(cpu);
    ptrace::ProcessMemory memory(tid);
    Prediction prediction = predict_(process_ << 32 | static_cast<uint32_t>(Tgid(tid)), regs, memory);
    Stepper stepper(tid, regs);
    std::string why;
    Verdict verdict = Follow(stepper, prediction, &why);
    if (stepper.gone()) ticks_.erase(tid);
    Count(verdict, prediction, memory);
    if (verdict == Verdict::kWrong) {
      std::string text = why + RegisterText(regs) + absl::StrFormat("  walk stopped: %s at %x after %d steps\n",
                                                                    std::string(StopReasonName(prediction.stop)),
                                                                    prediction.end_ip, prediction.steps);
      tally_->wrongs.push_back({program_.name, text + "  last instructions:\n" + stepper.Trail()});
    }
    return stepper.pending_signal();
  }

  pid_t Tgid(pid_t tid) {
    ptrace::SignalStatus status;
    return ptrace::ReadSignalStatus(tid, &status) ? status.tgid : tid;
  }

  void Count(Verdict verdict, const Prediction& prediction, decode::Memory& memory) {
    if (verdict == Verdict::kDisturbed) {
      ++tally_->disturbed;
      return;
    }
    ++tally_->windows;
    if (verdict == Verdict::kWrong) {
      ++tally_->wrong;
      return;
    }
    size_t depth = prediction.branches.size();
    tally_->branches += depth;
    tally_->steps += prediction.steps;
    if (depth * 2 >= options_.depth) ++tally_->at_least_half;
    if (depth >= options_.depth) {
      ++tally_->exact_full;
      return;
    }
    ++tally_->shortened;
    ++tally_->stops[prediction.stop];
    ++tally_->at_instruction[absl::StrCat(std::string(StopReasonName(prediction.stop)), " ", MnemonicAt(prediction.end_ip, memory))];
  }

  const Program& program_;
  const Predictor& predict_;
  const Options& options_;
  std::mt19937_64* random_;
  Tally* tally_;
  pid_t child_ = -1;
  bool started_ = false;
  std::map<pid_t, UniqueFd> ticks_;
  static inline uint64_t process_ = 0;
};

}  // namespace

void Tally::Add(const Tally& other) {
  windows += other.windows;
  exact_full += other.exact_full;
  shortened += other.shortened;
  wrong += other.wrong;
  disturbed += other.disturbed;
  at_least_half += other.at_least_half;
  branches += other.branches;
  steps += other.steps;
  for (const auto& [stop, count] : other.stops) stops[stop] += count;
  for (const auto& [what, count] : other.at_instruction) at_instruction[what] += count;
  wrongs.insert(wrongs.end(), other.wrongs.begin(), other.wrongs.end());
}

Tally Judge(const Program& program, const Predictor& predict, const Options& options) {
  Tally tally;
  std::mt19937_64 random(options.seed);
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(options.seconds));
  constexpr int kMaxRuns = 5000;  // a run of cc1 is short
  for (int i = 0; i < kMaxRuns && tally.windows < options.windows && (tally.windows < options.least || std::chrono::steady_clock::now() < deadline); ++i) {
    Run(program, predict, options, &random, &tally).Go(deadline);
  }
  return tally;
}

}  // namespace brink::fidelity
