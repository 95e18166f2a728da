#include "cli/record_aggregate.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "aggregate/file.h"
#include "base/thread.h"
#include "report/loader.h"

namespace brink::cli {
namespace {

uint64_t ClockNs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Reads the stream to its end. Closing the pipe early ends the recording (its consumer sees EPIPE).
Status Count(std::unique_ptr<perfdata::Input> stream, const report::CollectOptions& options) {
  std::optional<report::AggregateCollector> collector;
  report::LoadOptions load;
  load.classify = load.observe_only = true;
  load.observe = [&](report::Program& program) { return &collector.emplace(&program, options); };
  ASSIGN_OR_RETURN(std::unique_ptr<report::Program> program, report::LoadProgram(std::move(stream), load));
  return collector->Finish();
}

}  // namespace

StatusOr<RecordResult> RecordAggregate(RecordSpec spec, std::unique_ptr<StackSource> source, report::CollectOptions options) {
  // So that a path that cannot be written is told before anything is recorded.
  RETURN_IF_ERROR(aggregate::Write({}, options.path));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
  UniqueFd from(ends[0]), to(ends[1]);
  constexpr int kPipeBytes = 1 << 20;
  (void)fcntl(to.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller one works, too
  ASSIGN_OR_RETURN(std::unique_ptr<perfdata::Input> stream, perfdata::OpenInput("/dev/fd/" + std::to_string(from.get())));
  from.Reset();
  options.wall_offset_ns = ClockNs(CLOCK_REALTIME) - ClockNs(CLOCK_MONOTONIC);
  spec.file.path = options.path;
  spec.file.pipe = true;
  spec.open_sink = [&to](const std::string& path) -> StatusOr<std::unique_ptr<perfdata::Sink>> {
    return std::unique_ptr<perfdata::Sink>(std::make_unique<perfdata::FdSink>(std::move(to), path));
  };
  Status counted;
  // Signals are the recorder's: it blocks them before it starts threads, this one is older.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto counter = StartThread("the thread that counts", [&] { counted = Count(std::move(stream), options); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  RETURN_IF_ERROR(counter.status());
  StatusOr<RecordResult> result = Record(spec, std::move(source));
  to.Reset();  // where the recording failed before it took the pipe
  counter->join();
  if (!result.ok()) {
    unlink(options.path.c_str());
    return result.status();
  }
  if (!counted.ok()) {
    result->consumer = Annotate(counted, "counting");
    result->reason = EndReason::kConsumerFailed;
  }
  struct stat file = {};
  if (stat(options.path.c_str(), &file) == 0) result->bytes = static_cast<uint64_t>(file.st_size);
  return result;
}

}  // namespace brink::cli
