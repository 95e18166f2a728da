#include "exact/exact_source.h"

#include <absl/strings/str_format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/thread.h"

namespace brink {
namespace {

// A window of many steps is written when it is done, with the time at which it began.
constexpr uint64_t kWindowDelayNs = 2'000'000'000;

}  // namespace

SourceTraits ExactSource::traits() const {
  bool hop = options_.follow.hop;
  return {.name = hop ? "hop" : "step",
          .id = hop ? BRINK_SOURCE_HOP : BRINK_SOURCE_STEP,
          .direction = BRINK_DIR_FUTURE,
          .contiguous = options_.follow.kinds == 0xffffffff,
          .branch_sample_type = options_.branch_sample_type,
          .depth = options_.follow.depth,
          .sampling_events = false,
          .user_only = true,
          .max_delay_ns = kWindowDelayNs};
}

Status ExactSource::Prepare(SourceContext& context) {
  if (context.period_ns() == 0 && options_.follow.at == 0) {
    return InvalidArgument(traits().name + " samples by the clock of each thread; choose cpu-clock with -F or -c");
  }
  if (context.period_ns()) options_.follow.period_ns = context.period_ns();
  ASSIGN_OR_RETURN(follower_, ptrace::Follower::Start(options_.follow));
  return OkStatus();
}

Status ExactSource::Attach(SourceContext& context) {
  if (!options_.tids.empty()) {
    for (pid_t tid : options_.tids) RETURN_IF_ERROR(follower_->AttachThread(tid).status());
    return OkStatus();
  }
  if (context.command_pid() != 0) return follower_->AttachCommand(context.command_pid());
  for (pid_t pid : context.target_pids()) RETURN_IF_ERROR(follower_->AttachProcess(pid).status());
  return OkStatus();
}

Status ExactSource::Start(SourceContext& context) {
  RETURN_IF_ERROR(Attach(context));
  // Signals are the main thread's business.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto pump = StartThread("the thread that takes the stacks", [this, &context] { Pump(context); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSIGN_OR_RETURN(pump_, std::move(pump));
  return OkStatus();
}

void ExactSource::DrainInto(SourceContext& context) {
  auto count = follower_->Drain([&](const brink_rec_header& record) {
    context.Inject(std::as_bytes(std::span(reinterpret_cast<const char*>(&record), record.size)));
  });
  if (!count.ok() && failure_.ok()) failure_ = count.status();
}

void ExactSource::Pump(SourceContext& context) {
  constexpr int kEveryMs = 50;
  while (!stopping_ && failure_.ok()) {
    struct pollfd wait = {follower_->fd(), POLLIN, 0};
    ::poll(&wait, 1, kEveryMs);
    DrainInto(context);
  }
  Status left = follower_->Leave();
  if (!left.ok() && failure_.ok()) failure_ = left;
  DrainInto(context);
}

void ExactSource::Stop() {
  stopping_ = true;
  if (pump_.joinable()) pump_.join();
}

std::vector<StatLine> ExactSource::Report() {
  std::vector<StatLine> lines;
  if (!follower_) return lines;
  auto count = [&](uint32_t which) { return follower_->counter(which); };
  uint64_t windows = count(ptrace::kWindows), stops = count(ptrace::kStops), branches = count(ptrace::kBranches);
  double mean = windows ? static_cast<double>(branches) / static_cast<double>(windows) : 0;
  for (uint32_t i = 0; i < ptrace::kCounterCount; ++i) {
    if (count(i) == 0 && i != ptrace::kBusy && i != ptrace::kInterrupted) continue;
    std::string name(ptrace::CounterName(i));
    std::replace(name.begin(), name.end(), '-', '_');
    lines.push_back({name, static_cast<double>(count(i)), ""});
  }
  lines.push_back({"mean_depth", mean, absl::StrFormat("%s: %d threads, %d stacks, mean depth %.1f of %d, %d stops",
                                                       traits().name, count(ptrace::kThreads), windows, mean,
                                                       options_.follow.depth, stops)});
  std::string unusual;
  for (uint32_t i = ptrace::kBusy; i <= ptrace::kLostSamples; ++i) {
    if (count(i)) unusual += absl::StrFormat("%s%s %d", unusual.empty() ? "" : ", ", std::string(ptrace::CounterName(i)), count(i));
  }
  if (!unusual.empty()) lines.push_back({"counted", 1, traits().name + " counted: " + unusual});
  double cpu_ms = static_cast<double>(follower_->helper_cpu_ns()) / 1e6;
  lines.push_back({"helper_cpu_ms", cpu_ms, absl::StrFormat("%s: the ptrace helper took %.0f ms of CPU time", traits().name, cpu_ms)});
  if (!failure_.ok()) lines.push_back({"helper_failed", 1, Message(failure_)});
  return lines;
}

}  // namespace brink
