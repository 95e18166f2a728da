#include "truth.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>
#include <thread>
#include <utility>

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
#include "base/stop.h"
#include "disasm.h"
#include "stepper.h"

namespace brink::fidelity {
namespace {

using ptrace::TrapKind;
using Clock = std::chrono::steady_clock;

// A thread that runs alone and does not come to its next sample within this waits for one that stands.
constexpr auto kMostAlone = std::chrono::milliseconds(20);
// No thread has come to a sample for so long: one may have the signal blocked.
constexpr auto kQuiet = std::chrono::milliseconds(20);
constexpr auto kMostFreezing = std::chrono::milliseconds(200);

std::string RegisterText(const ptrace::Regs& regs) {
#ifdef __aarch64__
  std::string out = absl::StrFormat("  ip %x flags %x tpidr %x sp %x\n ", regs.ip, regs.flags, regs.tpidr, regs.sp());
  for (int i = 0; i < 31; ++i) absl::StrAppendFormat(&out, " x%d %x", i, regs.gpr[i]);
#else
  static const char* const kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  std::string out = absl::StrFormat("  ip %x flags %x fs %x gs %x\n ", regs.ip, regs.flags, regs.fs_base, regs.gs_base);
  for (int i = 0; i < 16; ++i) absl::StrAppendFormat(&out, " %s %x", kNames[i], regs.gpr[i]);
#endif
  return out + "\n";
}

// The first place where two walks read something else.
std::string Changed(const Prediction& first, const Prediction& second) {
  if (!first.memory || !second.memory) return "";
  for (const auto& [address, bytes] : *first.memory) {
    auto other = second.memory->find(address);
    if (other == second.memory->end()) continue;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == other->second[i]) continue;
      return absl::StrFormat("%x was %02x and is %02x", address + i, bytes[i], other->second[i]);
    }
  }
  return "";
}

// One program under ptrace, from start to end.
class Run {
 public:
  Run(const Program& program, const Predictor& predict, const Options& options, std::mt19937_64* random, Tally* tally)
      : program_(program), predict_(predict), options_(options), random_(random), tally_(tally) {}
  ~Run() { KillAll(); }

  // Until enough windows are judged, the program ends or time is over.
  void Go(Clock::time_point deadline) {
    Start();
    while (tally_->windows < options_.windows && (tally_->windows < options_.least || Clock::now() < deadline)) {
      int status = 0;
      pid_t tid = Wait(&status);
      if (tid < 0) return;
      if (tid == 0) continue;
      if (!WIFSTOPPED(status)) {
        ticks_.erase(tid);
        if (ticks_.empty() && started_) return;
      } else {
        OnStop(tid, WSTOPSIG(status), status >> 16, true);
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

  // The next thread that stops or ends. 0: nothing yet. Whatever another thread or another stop than the sample comes
  // while one runs alone ends that.
  pid_t Wait(int* status) {
    pid_t tid = ::waitpid(-1, status, __WALL | WNOHANG);
    if (tid == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (alone_ == 0) {
      if (tid != 0) heard_ = Clock::now();
      else if (Clock::now() - heard_ > kQuiet) Unblock();
      return tid;
    }
    bool sample = tid == alone_ && WIFSTOPPED(*status) && WSTOPSIG(*status) == SIGTRAP && *status >> 16 == 0;
    if (!sample && (tid != 0 || Clock::now() >= alone_until_)) Thaw();
    return tid;
  }

  // Libraries block every signal in threads of their own (liblzma does); a sample is a signal. It is unblocked.
  void Unblock() {
    heard_ = Clock::now();
    for (const auto& [tid, tick] : ticks_) {
      ptrace::SignalStatus status;
      if (!ptrace::ReadSignalStatus(tid, &status) || !(status.blocked & ptrace::kSigtrapBit)) continue;
      if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) blocked_.insert(tid);
    }
  }

  void OnStop(pid_t tid, int signal, int event, bool judge) {
    int deliver = 0;
    if (event == PTRACE_EVENT_EXEC) {
      ++process_;
      started_ = true;
      ticks_[tid].Reset();
      Arm(tid);
    } else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
      ::ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);
      return;
    } else if (event == PTRACE_EVENT_STOP && blocked_.erase(tid)) {
      uint64_t mask = 0;
      if (ptrace::GetSignalMask(tid, &mask)) ptrace::SetSignalMask(tid, mask & ~ptrace::kSigtrapBit);
      Arm(tid);
    } else if (event == PTRACE_EVENT_STOP && !ticks_.contains(tid)) {
      Arm(tid);
    } else if (event == 0 && signal == SIGTRAP) {
      TrapKind kind = ptrace::ClassifyTrap(tid);
      if (kind == TrapKind::kTick && judge) deliver = OnTick(tid);
      else if (kind == TrapKind::kTick) Arm(tid);
      else if (kind == TrapKind::kForeign) deliver = signal;
    } else if (event == 0) {
      deliver = signal;
    }
    ::ptrace(PTRACE_CONT, tid, nullptr, static_cast<unsigned long>(deliver));
  }

  // Returns a signal to deliver.
  int OnTick(pid_t tid) {
    // A walk that is made in the sample itself: the sample is taken again while the others stand.
    if (options_.alone && options_.on_tick && alone_ != tid && ticks_.size() > 1) {
      if (Freeze(tid)) {
        alone_ = tid;
        alone_until_ = Clock::now() + kMostAlone;
      } else {
        Thaw();
      }
      Arm(tid);
      return 0;
    }
    if (options_.alone && !Freeze(tid)) {
      ++tally_->disturbed;
      Thaw();
      Arm(tid);
      return 0;
    }
    int deliver = Window(tid);
    Thaw();
    Arm(tid);
    return deliver;
  }

  // Stops every thread but `tid`. False: one did not stop.
  bool Freeze(pid_t tid) {
    std::vector<pid_t> others;
    for (const auto& [other, tick] : ticks_) {
      if (other == tid || held_.contains(other)) continue;
      if (::ptrace(PTRACE_INTERRUPT, other, nullptr, nullptr) == 0) others.push_back(other);
    }
    auto until = Clock::now() + kMostFreezing;
    for (pid_t other : others) {
      int status = 0;
      pid_t got = 0;
      while ((got = ::waitpid(other, &status, __WALL | WNOHANG)) == 0 && Clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      if (got == 0) return false;
      if (got == other && WIFSTOPPED(status)) held_[other] = status;
      else ticks_.erase(other);
    }
    return true;
  }

  void Thaw() {
    alone_ = 0;
    for (const auto& [tid, status] : std::exchange(held_, {})) OnStop(tid, WSTOPSIG(status), status >> 16, false);
  }

  // Returns a signal that came in between and is to be delivered.
  int Window(pid_t tid) {
    ptrace::Regs regs;
    if (!ptrace::ReadRegs(tid, &regs) || !regs.is_64bit) return 0;
    int cpu = ptrace::LastCpu(tid);
    if (cpu >= 0) ptrace::JoinCpu(cpu);
    ptrace::ProcessMemory memory(tid);
    uint64_t process = process_ << 32 | static_cast<uint32_t>(Tgid(tid));
    Prediction first = predict_(process, regs, memory), second;
    if (options_.again && !options_.alone) {
      if (options_.delay_us > 0 && ticks_.size() > 1) std::this_thread::sleep_for(std::chrono::microseconds(options_.delay_us));
      if (!Freeze(tid)) {
        ++tally_->disturbed;
        return 0;
      }
      second = options_.again(process, regs, memory);
    }
    Stepper stepper(tid, regs);
    Verdict verdict(first.branches, first.end_ip, regs.ip), check(second.branches, second.memory ? second.end_ip : regs.ip, regs.ip);
    while (verdict.state() == Verdict::State::kOpen || check.state() == Verdict::State::kOpen) {
      brink_branch branch = {};
      auto what = stepper.Step(&branch);
      verdict.See(what, branch, stepper.ip());
      check.See(what, branch, stepper.ip());
    }
    if (stepper.gone()) ticks_.erase(tid);
    Count(verdict.state(), first, memory);
    if (verdict.state() == Verdict::State::kWrong) {
      bool explained = check.state() == Verdict::State::kTrue && second.branches.size() > verdict.at();
      NoteWrong(verdict, explained, Changed(first, second), regs, first, stepper);
    }
    return stepper.pending_signal();
  }

  void NoteWrong(const Verdict& verdict, bool explained, const std::string& changed, const ptrace::Regs& regs,
                 const Prediction& prediction, Stepper& stepper) {
    tally_->explained += explained;
    std::string text = verdict.why();
    if (explained) {
      absl::StrAppend(&text, "  explained: the walk made again in the same memory as the CPU's goes the CPU's way");
      if (!changed.empty()) absl::StrAppend(&text, "; ", changed);
      text += "\n";
    } else {
      absl::StrAppend(&text, "  NOT explained ", changed, "\n");
    }
    absl::StrAppend(&text, RegisterText(regs));
    absl::StrAppendFormat(&text, "  walk stopped: %s at %x after %d steps\n", std::string(StopReasonName(prediction.stop)),
                          prediction.end_ip, prediction.steps);
    tally_->wrongs.push_back({program_.name, explained, text + "  last instructions:\n" + stepper.Trail()});
  }

  pid_t Tgid(pid_t tid) {
    ptrace::SignalStatus status;
    return ptrace::ReadSignalStatus(tid, &status) ? status.tgid : tid;
  }

  void Count(Verdict::State verdict, const Prediction& prediction, decode::Memory& memory) {
    if (verdict == Verdict::State::kDisturbed) {
      ++tally_->disturbed;
      return;
    }
    ++tally_->windows;
    if (verdict == Verdict::State::kWrong) {
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
  std::map<pid_t, UniqueFd> ticks_;  // every thread that lives
  std::map<pid_t, int> held_;        // threads that were made to stand, with the status of that stop
  std::set<pid_t> blocked_;          // threads that are stopped to unblock the signal
  Clock::time_point heard_ = Clock::now();
  pid_t alone_ = 0;                  // the only thread that runs, until its next sample
  Clock::time_point alone_until_;
  static inline uint64_t process_ = 0;
};

}  // namespace

void Tally::Add(const Tally& other) {
  windows += other.windows;
  exact_full += other.exact_full;
  shortened += other.shortened;
  wrong += other.wrong;
  explained += other.explained;
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
