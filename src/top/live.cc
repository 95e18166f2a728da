#include "top/live.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/strings.h"
#include "base/thread.h"
#include "report/annotate.h"
#include "report/source.h"

namespace brink::top {
namespace {

// Rows whose lines and names are looked up for one picture; rarer branches have no place on a screen.
constexpr size_t kMostBranches = 2000;
constexpr uint64_t kJitRounds = 3;  // snapshots between two looks at maps of JIT code

// Tables that need every branch for their sums.
bool SumsUp(std::string_view table) { return table == "functions" || table == "edges"; }

// An input that ends when a second file becomes readable: a thread that waits for a stream could not be joined otherwise.
class StoppableInput : public perfdata::Input {
 public:
  // `fd` is of the same stream as `inner`.
  StoppableInput(std::unique_ptr<perfdata::Input> inner, UniqueFd fd, int stop_fd) : inner_(std::move(inner)), fd_(std::move(fd)), stop_fd_(stop_fd) {}

  StatusOr<size_t> Read(std::byte* out, size_t size) override {
    pollfd fds[] = {{fd_.get(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    while (poll(fds, 2, -1) < 0) {
      if (errno != EINTR) return ErrnoError(errno, "poll");
    }
    if (fds[1].revents) return size_t{0};
    return inner_->Read(out, size);
  }
  StatusOr<size_t> ReadAt(uint64_t offset, std::byte* out, size_t size) override { return inner_->ReadAt(offset, out, size); }
  brink::Status Seek(uint64_t offset) override { return inner_->Seek(offset); }
  uint64_t position() const override { return inner_->position(); }
  uint64_t size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }

 private:
  std::unique_ptr<perfdata::Input> inner_;
  UniqueFd fd_;
  int stop_fd_;
};

StatusOr<std::unique_ptr<perfdata::Input>> OpenStoppable(const std::string& path, int stop_fd) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY));
  ASSIGN_OR_RETURN(std::unique_ptr<perfdata::Input> inner, perfdata::OpenInput(path));
  return std::make_unique<StoppableInput>(std::move(inner), std::move(fd), stop_fd);
}

}  // namespace

Live::Live(std::string path, const report::LoadOptions& options)
    : path_(std::move(path)), options_(options), ended_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), last_time_(std::chrono::steady_clock::now()) {
  auto thread = StartThread("the thread that reads", [this] { Read(); });
  if (thread.ok()) thread_ = *std::move(thread);
  else Note(thread.status());
}

Live::~Live() { Stop(); }

void Live::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

brink::Status Live::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void Live::Note(brink::Status status) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
  finished_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(ended_.get(), &one, sizeof one);
}

void Live::Read() {
  auto input = OpenStoppable(path_, stop_.get());
  if (!input.ok()) return Note(input.status());
  auto loader = report::ProgramLoader::Open(*std::move(input), options_, &program_);
  if (!loader.ok()) return Note(loader.status());
  {
    MutexLock lock(mutex_);
    loader_ = *std::move(loader);
  }
  while (true) {
    auto more = loader_->Read();
    if (!more.ok()) return Note(more.status());
    if (!*more) break;
    MutexLock lock(mutex_);
    loader_->Apply();
  }
  Note(OkStatus());
}

void Live::Snapshot(bool forget) {
  MutexLock lock(mutex_);
  if (!loader_) return;
  loader_->Snapshot();
  const report::Aggregate& aggregate = program_.aggregate;
  const auto now = std::chrono::steady_clock::now();
  facts_.samples = forgotten_samples_ + aggregate.samples;
  facts_.branches = forgotten_branches_ + aggregate.branch_count;
  facts_.lost = program_.facts.lost_records + program_.facts.lost_samples;
  const double seconds = std::chrono::duration<double>(now - last_time_).count();
  if (seconds > 0) facts_.samples_per_second = static_cast<double>(facts_.samples - last_samples_) / seconds;
  last_time_ = now;
  last_samples_ = facts_.samples;
  if (++jit_round_ % kJitRounds == 0 && !finished_) program_.symbolizer->ForgetJitCode();
  if (!forget) return;
  forgotten_samples_ = facts_.samples;
  forgotten_branches_ = facts_.branches;
  loader_->ResetCounts();
}

void Live::Reset() {
  Snapshot(true);
  MutexLock lock(mutex_);
  program_.aggregate = {};
  program_.loops.clear();
}

report::Table Live::TableOf(const report::TableKind& kind) {
  MutexLock lock(mutex_);
  if (!loader_) return {.name = kind.name};
  std::vector<report::BranchStat>& branches = program_.aggregate.branches;
  if (SumsUp(kind.name) || branches.size() <= kMostBranches) {
    program_.FillKinds();
    return kind.make(program_, {});
  }
  std::vector<report::BranchStat> all = branches;
  std::nth_element(branches.begin(), branches.begin() + kMostBranches, branches.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  branches.resize(kMostBranches);
  program_.FillKinds();
  report::Table table = kind.make(program_, {});
  branches = std::move(all);
  return table;
}

StatusOr<std::vector<std::string>> Live::Annotate(const std::string& function) {
  MutexLock lock(mutex_);
  if (!loader_) return FailedPrecondition("nothing was recorded yet");
  std::map<report::FunctionId, uint64_t> counts;
  for (const report::BranchStat& branch : program_.aggregate.branches) {
    const report::FunctionId id = program_.FunctionAt(branch.from);
    if ((*program_.symbolizer)[id].name == function) counts[id] += branch.count;
  }
  auto hottest = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (hottest == counts.end()) return NotFound("no branches of " + function + " in this picture");
  ASSIGN_OR_RETURN(report::AnnotatedFunction annotated, report::Annotator(&program_).Annotate(hottest->first));
  report::SourceFiles sources(options_.symbols.locate.symfs);
  const std::string text = report::AnnotateText(annotated, &sources, {});
  std::vector<std::string> lines;
  for (std::string_view line : Split(text, '\n')) {
    std::string out;
    for (char c : line) out += c == '\t' ? std::string("    ") : std::string(1, c);
    lines.push_back(std::move(out));
  }
  return lines;
}

}  // namespace brink::top
