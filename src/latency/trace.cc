#include "latency/trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"

namespace brink::latency {
namespace {

constexpr const char* kNoteDir = "/run/brink";
constexpr std::string_view kNotePrefix = "trace.";
constexpr const char* kDefaultEvents[] = {"sched:sched_switch", "sched:sched_waking", "irq", "timer:hrtimer_expire_entry"};

Status Put(const std::string& path, std::string_view text) {
  auto fd = OpenFile(path, O_WRONLY | O_TRUNC);
  if (!fd.ok()) return fd.status();
  Status written = WriteAll(fd->get(), text.data(), text.size());
  return written.ok() ? written : ErrnoError(ErrnoOf(written) ? ErrnoOf(written) : EIO, path);
}

// The current value of a file with several, "trace" of "[trace] other".
std::string Current(std::string_view text) {
  size_t open = text.find('['), close = text.find(']');
  if (open != std::string_view::npos && close != std::string_view::npos && close > open) return std::string(text.substr(open + 1, close - open - 1));
  return std::string(Trim(text));
}

// A note is lines: "rmdir PATH", or "write PATH VALUE".
int ObeyNote(const std::string& note) {
  auto text = ReadFile(note, 1 << 20);
  if (!text.ok()) return 0;
  int done = 0;
  for (std::string_view line : Split(*text, '\n')) {
    auto words = Split(line, ' ');
    if (words.size() == 2 && words[0] == "rmdir" && words[1].find("/instances/brink-") != std::string_view::npos) {
      // A reader that is just leaving keeps it busy for a moment.
      for (int i = 0; i < 100 && ::rmdir(std::string(words[1]).c_str()) != 0 && errno == EBUSY; ++i) ::usleep(10'000);
      ++done;
    } else if (words.size() == 3 && words[0] == "write") {
      done += Put(std::string(words[1]), words[2]).ok();
    }
  }
  ::unlink(note.c_str());
  return done;
}

Status Unknown(const std::string& tracer, const std::string& root) {
  auto available = ReadFile(root + "/available_tracers", 4096);
  return FailedPrecondition("this kernel has no tracer " + EscapeForTerminal(tracer) + " (it has: " + (available.ok() ? std::string(Trim(*available)) : "none") +
                            "); --blame names what a latency tracer would show");
}

}  // namespace

StatusOr<std::unique_ptr<Trace>> Trace::Start(const TraceRequest& request, const std::string& root) {
  if (root.empty()) return FailedPrecondition("tracing needs tracefs: run as root (brink doctor: kernel.tracefs)");
  RestoreTraces(root);
  std::unique_ptr<Trace> trace(new Trace());
  trace->file_ = request.file;
  if (!request.tracer.empty()) {
    auto available = ReadFile(root + "/available_tracers", 4096);
    bool there = false;
    if (available.ok()) {
      for (std::string_view name : Split(Trim(*available), ' ')) there |= name == request.tracer;
    }
    if (!there) return Unknown(request.tracer, root);
  }
  if (!request.own_trace) {
    trace->folder_ = root;
  } else {
    trace->folder_ = absl::StrFormat("%s/instances/brink-%d", root, ::getpid());
    ::mkdir(kNoteDir, 0700);
    trace->note_ = absl::StrFormat("%s/%s%d", kNoteDir, kNotePrefix, ::getpid());
    auto note = OpenFile(trace->note_, O_WRONLY | O_CREAT | O_TRUNC);
    if (!note.ok()) return note.status();
    std::string line = "rmdir " + trace->folder_ + "\n";
    RETURN_IF_ERROR(WriteAll(note->get(), line.data(), line.size()));
    RETURN_IF_ERROR(trace->Guard());
    if (::mkdir(trace->folder_.c_str(), 0700) != 0) return ErrnoError(errno, "private trace " + trace->folder_);
    trace->own_instance_ = true;
    RETURN_IF_ERROR(trace->Set(request, root));
  }
  ASSIGN_OR_RETURN(trace->marker_, OpenFile(trace->folder_ + "/trace_marker", O_WRONLY));
  ASSIGN_OR_RETURN(trace->on_, OpenFile(trace->folder_ + "/tracing_on", O_WRONLY));
  return trace;
}

Status Trace::Set(const TraceRequest& request, const std::string& root) {
  for (const std::string& option : request.options) RETURN_IF_ERROR(Put(folder_ + "/trace_options", option));
  std::vector<std::string> events = request.events;
  if (events.empty() && request.tracer.empty()) events.assign(std::begin(kDefaultEvents), std::end(kDefaultEvents));
  for (const std::string& event : events) {
    std::string path = event;
    if (size_t colon = path.find(':'); colon != std::string::npos) path[colon] = '/';
    if (path.find("..") != std::string::npos) return InvalidArgument("-E: '" + EscapeForTerminal(event) + "' is no event");
    Status enabled = Put(folder_ + "/events/" + path + "/enable", "1");
    if (!enabled.ok()) return FailedPrecondition("-E: this kernel has no event " + EscapeForTerminal(event));
  }
  if (request.tracer.empty()) return OkStatus();
  Status set = Put(folder_ + "/current_tracer", request.tracer);
  // EINVAL is how a tracer says that it is for the top level only.
  if (ErrnoOf(set) == EINVAL) return SetTopLevel(request, root);
  return set.ok() ? set : Annotate(set, "the tracer " + request.tracer + " is refused; --blame names what it would show");
}

Status Trace::SetTopLevel(const TraceRequest& request, const std::string& root) {
  std::string path = root + "/current_tracer";
  ASSIGN_OR_RETURN(std::string before, ReadFile(path, 4096));
  // Written down before it is done.
  auto note = OpenFile(note_, O_WRONLY | O_APPEND);
  if (!note.ok()) return note.status();
  std::string line = "write " + path + " " + Current(before) + "\n";
  RETURN_IF_ERROR(WriteAll(note->get(), line.data(), line.size()));
  touched_.push_back(path);
  std::fprintf(stderr, "WARN: the tracer %s refuses instances: %s is changed and put back at the end\n", request.tracer.c_str(), path.c_str());
  return Put(path, request.tracer);
}

Status Trace::Guard() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "guard");
  guard_ = ::fork();
  if (guard_ < 0) return ErrnoError(errno, "guard");
  if (guard_ == 0) {
    // Outlives its parent on purpose; a Ctrl-C is the parent's business.
    ::setsid();
    ::prctl(PR_SET_NAME, "brink-guard");
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
    // Nothing of the parent's output may wait for us.
    int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::close(ends[1]);
    char byte;
    while (::read(ends[0], &byte, 1) < 0 && errno == EINTR) continue;
    ObeyNote(note_);
    ::_exit(0);
  }
  ::close(ends[0]);
  guard_pipe_.Reset(ends[1]);
  return OkStatus();
}

void Trace::Hit(pid_t, int64_t value, int64_t limit) {
  char text[96];
  int length = std::snprintf(text, sizeof text, "hit latency threshold (%ld > %ld)", static_cast<long>(value), static_cast<long>(limit));
  ssize_t ignored = ::write(marker_.get(), text, static_cast<size_t>(length));
  ignored = ::write(on_.get(), "0", 1);
  (void)ignored;
  hit_ = true;
}

void Trace::Mark(const std::string& text) {
  ssize_t ignored = ::write(marker_.get(), text.data(), text.size());
  (void)ignored;
}

Status Trace::Save() {
  if (!own_instance_) return OkStatus();
  ASSIGN_OR_RETURN(UniqueFd in, OpenFile((touched_.empty() ? folder_ : folder_.substr(0, folder_.find("/instances/"))) + "/trace", O_RDONLY));
  ASSIGN_OR_RETURN(UniqueFd out, OpenFile(file_, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  std::vector<char> block(1 << 16);
  ssize_t n;
  while ((n = ::read(in.get(), block.data(), block.size())) > 0) RETURN_IF_ERROR(WriteAll(out.get(), block.data(), static_cast<size_t>(n)));
  return OkStatus();
}

Trace::~Trace() {
  marker_.Reset();
  on_.Reset();
  guard_pipe_.Reset();  // the guard cleans up now
  if (guard_ > 0) ::waitpid(guard_, nullptr, 0);
}

int RestoreTraces(const std::string& root) {
  int done = 0;
  auto gone = [](std::string_view digits) {
    auto pid = ParseUint(digits);
    return pid.ok() && *pid <= INT32_MAX && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
  };
  if (DIR* dir = ::opendir(kNoteDir)) {
    while (struct dirent* entry = ::readdir(dir)) {
      std::string_view name = entry->d_name;
      if (name.starts_with(kNotePrefix) && gone(name.substr(kNotePrefix.size()))) done += ObeyNote(std::string(kNoteDir) + "/" + std::string(name));
    }
    ::closedir(dir);
  }
  std::string instances = root + "/instances";
  if (DIR* dir = ::opendir(instances.c_str())) {
    while (struct dirent* entry = ::readdir(dir)) {
      std::string_view name = entry->d_name;
      if (name.starts_with("brink-") && gone(name.substr(6))) done += ::rmdir((instances + "/" + std::string(name)).c_str()) == 0;
    }
    ::closedir(dir);
  }
  return done;
}

}  // namespace brink::latency
