// Late wake-ups of known cause, twenty of each: at least nineteen must be blamed rightly. A wake-up is judged when most
// of its lateness lies within an injected stretch of time, and injections are repeated until twenty were: other load of
// the machine makes late wake-ups too, of which nothing is known. The injector proves each stretch by its own means
// (inject_truth.h) and logs no other; a machine on which it can make too few is said to be one. How late wake-ups are is
// not judged, except that an injected stretch is well above the limit.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>

#include "base/fd.h"
#include "latency/cpu_set.h"
#include "latency/outputs.h"
#include "runtime/latency/support.h"
#include "support/features.h"

namespace brink::latency {

inline constexpr int kSpikes = 20;
inline constexpr int kRight = 19;
inline constexpr int kRounds = 6;

inline std::string Number(int64_t value) { return std::to_string(value); }

class Process {
 public:
  // `before` runs in the child: joining groups and the like.
  Process(std::vector<std::string> words, const std::string& out, const std::function<void()>& before = {}) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    if (before) before();
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) End(SIGKILL);
  }
  pid_t pid() const { return pid_; }
  int End(int signal) {
    if (signal) ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

using Injected = std::vector<std::pair<int64_t, int64_t>>;

inline Injected ReadInjected(const std::string& file) {
  Injected all;
  std::ifstream in(file);
  int64_t start = 0, end = 0;
  while (in >> start >> end) all.push_back({start, end});
  return all;
}

// The explained wake-up that has most to do with the stretch; null where it is the reason of none: most of the lateness
// must lie within, and half of the stretch in the lateness (a thread that was awake as it began has no late wake-up of it, but
// may have a small one of another reason beside). A cycle that never slept has no wake-up to judge: its late predecessor is
// what the stretch made.
inline const SpikeReport* SpikeOf(const std::vector<SpikeReport>& spikes, int64_t start, int64_t end) {
  const SpikeReport* most = nullptr;
  int64_t best = 0;
  for (const SpikeReport& spike : spikes) {
    if (spike.cause == Cause::kLastCycle) continue;
    int64_t within = std::min(spike.now_ns, end) - std::max(spike.deadline_ns, start);
    if (within > best) best = within, most = &spike;
  }
  return most && best * 10 >= most->lateness_ns * 6 && best * 2 >= end - start ? most : nullptr;
}

// Rows within 10 % or 20 us of the lateness, whichever is larger; and the parts exactly.
inline bool AddsUp(const SpikeReport& spike) {
  int64_t sum = 0;
  for (const BlameLine& line : spike.lines) sum += line.ns;
  int64_t off = std::abs(sum - spike.lateness_ns);
  return off <= std::max<int64_t>(spike.lateness_ns / 10, 20'000) && spike.parts.sum() == spike.lateness_ns;
}

inline bool HasThread(pid_t pid, const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + Number(pid) + "/task", error)) {
    auto comm = ReadFile(entry.path().string() + "/comm", 64);
    if (comm.ok() && *comm == name) return true;
  }
  return false;
}

struct Injection {
  std::string kind;
  std::vector<std::string> brink_options;
  std::vector<std::string> more;           // of the injector
  std::function<void()> join;              // in brink's process before it starts
  std::function<void()> injector_join;
  std::function<void()> measuring;         // brink has begun to measure
  std::function<void()> injected;          // all is injected, brink is about to end
};

class Blame : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.tp_btf");
    cpu_ = AllowedCpus().back();
  }

  using Judge = std::function<bool(const SpikeReport&)>;

  // Repeats `round`, which leaves a document and the injected times, until kSpikes late wake-ups were judged.
  void Expect(const std::function<void()>& round, const Judge& right) {
    for (int i = 0; i < kRounds && judged_ < kSpikes; ++i) {
      round();
      if (IsSkipped() || HasFatalFailure()) return;
      Count(right);
    }
    if (judged_ < kSpikes && made_ < kRounds * kSpikes / 2) GTEST_SKIP() << "needs a machine with time of its own: only " << made_ << " injected stretches of " << kRounds * kSpikes << " were what they should be. " << Text("inject");
    EXPECT_GE(judged_, kSpikes / 2) << "too few late wake-ups within what was injected: " << made_ << " stretches";
    EXPECT_GE(right_, judged_ - (kSpikes - kRight)) << wrong_;
  }

  void Expect(const Injection& injection, const Judge& right) {
    Expect([&] { Measure(injection); }, right);
  }

  // Runs brink beside the injector and reads both results.
  void Measure(const Injection& injection) {
    std::vector<std::string> words = {BrinkBinary(), "latency", "--blame=300", "-q", "-i", "1000", "-a", Number(cpu_), "--save", dir_.File("r")};
    words.insert(words.end(), injection.brink_options.begin(), injection.brink_options.end());
    Process brink(words, dir_.File("out"), injection.join);
    ASSERT_TRUE(WaitForThread(brink.pid(), "brink-latency\n")) << Text("out");
    if (injection.measuring) injection.measuring();
    Inject(injection);
    if (injection.injected) injection.injected();
    if (IsSkipped() || HasFatalFailure()) return;
    Take(&brink);
  }

  // Programs are loaded once a thread of that name exists. Guests under emulation take their time.
  static bool WaitForThread(pid_t pid, const std::string& name) {
    for (int i = 0; i < 120'000; ++i) {
      if (HasThread(pid, name)) return true;
      ::usleep(5000);
    }
    return false;
  }

  void Inject(const Injection& injection) {
    std::vector<std::string> inject = {INJECT, injection.kind, Number(kSpikes + 4), Number(cpu_), dir_.File("times")};
    inject.insert(inject.end(), injection.more.begin(), injection.more.end());
    Process injector(inject, dir_.File("inject"), injection.injector_join);
    injector_ = injector.pid();
    int status = injector.End(0);
    if (status == 77) GTEST_SKIP() << Text("inject");
    ASSERT_EQ(status, 0) << Text("inject");
  }

  // Ends brink, or without a signal waits for its end, and reads what it saved.
  void Take(Process* brink, int signal = SIGTERM) {
    ASSERT_EQ(brink->End(signal), 0) << Text("out");
    auto document = ParseResultJson(*ReadFile(dir_.File("r"), size_t{1} << 30));
    ASSERT_TRUE(document.ok()) << document.status();
    document_ = std::move(*document);
  }

  void Count(const Judge& right) {
    for (const auto& [start, end] : ReadInjected(dir_.File("times"))) {
      ++made_;
      const SpikeReport* spike = SpikeOf(document_.spikes, start, end);
      if (!spike || judged_ == kSpikes) continue;
      ++judged_;
      if (right(*spike) && AddsUp(*spike)) {
        ++right_;
        continue;
      }
      // Seen also where the others were enough: lanes show lines of this form.
      std::string text = SpikeText(*spike);
      std::printf("| not right, of %.1f ms: %s |\n", static_cast<double>(end - start) / 1e6, text.substr(0, text.find('\n')).c_str());
      wrong_ += text;
    }
  }

  std::string Text(const char* name) {
    auto text = ReadFile(dir_.File(name));
    return text.ok() ? *text : "";
  }

  // "latency_inject (pid N)": the injector's name is cut to fifteen letters.
  std::string InjectorName() const { return "latency_inject (pid " + Number(injector_) + ")"; }

  TempDir dir_;
  int cpu_ = 0;
  pid_t injector_ = 0;
  Document document_;
  int made_ = 0, judged_ = 0, right_ = 0;  // stretches, late wake-ups of them, and those blamed rightly
  std::string wrong_;
};

}  // namespace brink::latency
