#include "run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include <absl/strings/str_format.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "perfdata/reader.h"
#include "support/bpf_left.h"
#include "support/cgroup.h"

namespace brink::fault {
namespace {

using std::chrono_literals::operator""s;

// The block that both sides map.
class Shared {
 public:
  explicit Shared(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    BRINK_CHECK(fd >= 0 && ::ftruncate(fd, sizeof(Control)) == 0);
    void* at = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    BRINK_CHECK(at != MAP_FAILED);
    ::close(fd);
    control_ = static_cast<Control*>(at);
  }
  ~Shared() { ::munmap(control_, sizeof(Control)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  Control* operator->() const { return control_; }
  const Control* get() const { return control_; }

 private:
  Control* control_;
};

// Samples in the file; the problem where it cannot be read.
std::string Read(const std::string& path, uint64_t* samples) {
  auto reader = perfdata::Reader::Open(path);
  if (!reader.ok()) return "the recording does not open: " + Message(reader.status());
  perfdata::Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    if (!more.ok()) return "the recording cannot be read: " + Message(more.status());
    if (!*more) return "";
    *samples += record.sample() != nullptr;
  }
}

std::string JudgeFile(const std::string& path, const std::string& folder, bool complete) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return complete ? "there is no recording" : "";
  if (info.st_size == 0) return complete ? "the recording is empty" : "";
  uint64_t samples = 0;
  if (std::string problem = Read(path, &samples); !problem.empty()) return problem;
  if (!complete) return "";
  auto text = ReadFile(folder + "/report.json");
  if (!text.ok()) return "there is no report";
  nlohmann::json report = nlohmann::json::parse(*text, nullptr, false);
  if (!report.is_object()) return "the report is no JSON";
  const uint64_t sent = report["samples_sent"], written = report["samples_written"], lost = report["samples_lost"];
  if (sent != written + lost) return absl::StrFormat("sent %d, written %d, lost %d", sent, written, lost);
  if (samples != written) return absl::StrFormat("%d samples in the file, %d reported as written", samples, written);
  return "";
}

// Lines that say why it failed: all of brink's own behind the one that says that it has begun, if it had.
size_t ErrorLines(std::string_view text) {
  if (const size_t begun = text.rfind("Ctrl-C ends"); begun != std::string_view::npos) text.remove_prefix(begun);
  size_t count = 0;
  for (std::string_view line : Split(text, '\n')) count += line.substr(0, 5) == "brink" && line.find(':') != std::string_view::npos;
  return count;
}

bool CgroupLeft(pid_t pid) {
  const std::string name = "brink-run-" + std::to_string(pid);
  std::error_code error;
  const std::string v2 = testing_support::CgroupV2Mount();
  if (v2.empty()) return false;
  for (std::filesystem::recursive_directory_iterator it(v2, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == name) return true;
    if (it.depth() >= 3) it.disable_recursion_pending();
  }
  return false;
}

std::string Judge(const Scenario& scenario, const Fault& fault, const Outcome& outcome, const std::string& data, const std::string& folder, pid_t pid) {
  const testing_support::ProcessResult& process = outcome.process;
  if (process.timed_out) return "it hangs, or something it started does";
  for (const char* mark : {"internal error", "terminate called", "AddressSanitizer", "runtime error", "ThreadSanitizer", "LeakSanitizer"}) {
    if (process.err.find(mark) != std::string::npos) return "it broke";
  }
  if (fault.kind == kKill && outcome.injected) {
    if (process.status != 128 + SIGKILL) return "it was to be killed";
    return scenario.records ? JudgeFile(data, folder, false) : "";
  }
  // Asked to end before it has begun to listen: as any program would.
  if (fault.kind == kStop && process.status == 128 + SIGINT) return scenario.records ? JudgeFile(data, folder, false) : "";
  if (process.status > 128) return "it was ended by a signal";
  const bool complete = process.status == 0 || process.status == 3;
  if (!complete && process.status != 1 && process.status != 2 && process.status != 125 && process.status != 126 && process.status != 127) return "a status that means nothing";
  if (!complete && ErrorLines(process.err) != 1) return "not one line that says why";
  // A group can be busy for a moment after its last process; with a fault in its way it may stay until the next run.
  for (int i = 0; i < 250 && CgroupLeft(pid); ++i) usleep(20'000);
  if (CgroupLeft(pid) && fault.kind != kMemory) return "its cgroup is left";
  if (!scenario.records) return "";
  // Stopped before it began there is nothing to be complete.
  return JudgeFile(data, folder, complete && fault.kind != kStop);
}

}  // namespace

std::string JudgeRecording(const std::string& path, const std::string& folder) { return JudgeFile(path, folder, true); }

const char* KindName(Kind kind) {
  static const char* const names[] = {"none", "write", "short write", "thread start", "perf_event_open", "bpf()", "poll", "memory", "mmap",
                                      "ioctl", "fork", "open", "read", "descriptor", "ptrace", "clock jump", "kill -9", "SIGINT", "target", "slow write"};
  static_assert(std::size(names) == kKinds);
  return names[kind];
}

std::vector<std::string> ShortWork() { return {"--", "/bin/sh", "-c", "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done"}; }

Scenario Recording(const std::string& name, const std::vector<std::string>& options, const std::vector<std::string>& behind) {
  std::vector<std::string> words = {"record", "-F", "2000", "-o", "%/x.data", "--json=%/report.json", "--buffers", "4"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), behind.begin(), behind.end());
  return {.name = name, .words = words, .records = true, .target = {}};
}

std::vector<Scenario> Scenarios() {
  std::vector<std::string> snap = {"snap", "--on", "syscall:getppid", "--on", "exec", "--json"};
  std::vector<std::string> cfi = {"cfi", "learn", "-o", "%/learned", "--check=all"};
  for (const std::string& word : ShortWork()) snap.push_back(word), cfi.push_back(word);
  return {Recording("record cpu-clock", {"--source", "none"}, ShortWork()), Recording("record walk", {"--source", "walk"}, ShortWork()),
          Recording("record step", {"--source", "step"}, ShortWork()), {.name = "snap", .words = snap, .target = {}},
          {.name = "latency", .words = {"latency", "-q", "-t", "2", "-i", "500", "-l", "40", "--blame", "--json=%/latency.json"}, .target = {}},
          {.name = "cfi", .words = cfi, .target = {}},
          {.name = "agent", .words = {"agent", "--socket", "%/a.sock", "--dir", "%/files", "--window", "2s"}, .target = {}, .serves = "%/a.sock"}};
}

namespace {

// A process that is recorded from outside.
class TargetProcess {
 public:
  explicit TargetProcess(const std::vector<std::string>& argv) {
    if (argv.empty()) return;
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  ~TargetProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Sends SIGTERM to what has written its pid into `control`, half a second after the file is there.
class Terminator {
 public:
  Terminator(const Control* control, const std::string& file) {
    if (file.empty()) return;
    thread_ = std::jthread([control, file](std::stop_token stop) {
      UniqueFd process;  // held: its pid may be another's once it has been waited for
      for (int since = 0; since < 50 && !stop.stop_requested(); since += access(file.c_str(), F_OK) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (!process.valid() && control->pid > 0) process.Reset(static_cast<int>(syscall(SYS_pidfd_open, control->pid.load(), 0)));
      }
      if (!stop.stop_requested() && process.valid()) syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0);
    });
  }

 private:
  std::jthread thread_;
};

std::string Filled(std::string word, const std::string& folder, pid_t target) {
  if (word.substr(0, 2) == "%p") return std::to_string(target);
  size_t at = word.find("%/");
  if (at != std::string::npos) word.replace(at, 1, folder);
  return word;
}

}  // namespace

Outcome RunWith(const Scenario& scenario, const Fault& fault) {
  testing_support::TempDir dir;
  Shared control(dir.File("control"));
  control->kind = fault.nth ? fault.kind : kNone;
  control->nth = fault.nth;
  control->error = fault.error;
  control->always = fault.always;
  TargetProcess target(scenario.target);
  control->target = target.pid();
  std::vector<std::string> words = scenario.words;
  for (std::string& word : words) word = Filled(word, dir.path(), target.pid());
  Outcome outcome;
  const char* library = std::getenv("BRINK_FAULT_LIBRARY");  // another build's, for another build's brink
  {
    Terminator terminator(control.get(), scenario.serves.empty() ? "" : Filled(scenario.serves, dir.path(), 0));
    outcome.process = testing_support::RunBrink(words, {.timeout = 30s, .env = {std::string("LD_PRELOAD=") + (library ? library : BRINK_FAULT_LIBRARY), "BRINK_FAULT_FILE=" + dir.File("control"),
                                                                                "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1"}});
  }
  outcome.injected = control->injected;
  for (size_t i = 0; i < kKinds; ++i) outcome.calls[i] = control->calls[i];
  outcome.problem = Judge(scenario, fault, outcome, Filled(scenario.data, dir.path(), 0), dir.path(), control->pid);
  const uint32_t count = std::min<uint32_t>(control->programs, kMostPrograms);
  const std::set<uint32_t> programs(control->program_ids, control->program_ids + count);
  if (outcome.problem.empty() && !testing_support::UnloadedWithin(programs, 20s)) outcome.problem = "BPF programs are left";
  return outcome;
}

void Tally::Add(const Scenario&, const Fault& fault, const Outcome& outcome) {
  if (outcome.injected == 0) return;
  Row& row = rows_[KindName(fault.kind)];
  ++row.injected;
  if (!outcome.problem.empty()) {
    ++row.failed;
  } else if (outcome.process.status == 0) {
    ++row.unharmed;
  } else if (outcome.process.status == 3) {
    ++row.incomplete;
  } else if (outcome.process.status > 128) {
    ++row.ended;
  } else {
    ++row.refused;
  }
}

std::string Tally::Table() const {
  std::string text = "| kind | injected | unharmed | incomplete and counted | one line and an end | killed | not survived |\n|---|---|---|---|---|---|---|\n";
  Row all;
  auto line = [&](const std::string& name, const Row& row) {
    absl::StrAppendFormat(&text, "| %s | %d | %d | %d | %d | %d | %d |\n", name, row.injected, row.unharmed, row.incomplete, row.refused, row.ended, row.failed);
  };
  for (const auto& [name, row] : rows_) {
    line(name, row);
    all = {all.injected + row.injected, all.unharmed + row.unharmed, all.incomplete + row.incomplete, all.refused + row.refused,
           all.ended + row.ended, all.failed + row.failed};
  }
  line("all", all);
  return text;
}

}  // namespace brink::fault
