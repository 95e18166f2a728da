// brink snap: a branch stack, a call chain and the context exactly when something happens.
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "filter/parser.h"
#include "kernel/privileges.h"
#include "snap/run.h"
#include "snap/trigger.h"

namespace brink::cli {
namespace {

uint64_t RealtimeOffset() {
  timespec real, mono;
  clock_gettime(CLOCK_REALTIME, &real);
  clock_gettime(CLOCK_MONOTONIC, &mono);
  auto ns = [](const timespec& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec); };
  return ns(real) - ns(mono);
}

StatusOr<std::vector<pid_t>> ParsePids(const std::string& list, const char* option) {
  std::vector<pid_t> pids;
  if (list.empty()) return pids;
  for (std::string_view word : Split(list, ',')) {
    auto pid = ParseUint(word);
    if (!pid.ok() || *pid == 0 || *pid > INT32_MAX) return InvalidArgument(std::string(option) + ": '" + EscapeForTerminal(word) + "' is no process id");
    pids.push_back(static_cast<pid_t>(*pid));
  }
  return pids;
}

class SnapCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    RETURN_IF_ERROR(RequireRecordingRights(CapSet::ReadEffective()));
    snap::RunRequest request;
    RETURN_IF_ERROR(Fill(parsed, &request));
    snap::PrintOptions print = {.colour = colour_ == "always" || (colour_ == "auto" && isatty(STDOUT_FILENO)), .registers = registers_, .most_branches = most_branches_, .realtime_offset_ns = RealtimeOffset()};
    FILE* out = request.output == "-" ? stderr : stdout;
    request.print = [&, out](const snap::Capture& capture) -> Status {
      std::string text = json_ ? snap::CaptureJson(capture, print) + "\n" : snap::CaptureText(capture, print);
      if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) return Unavailable("the output is closed");
      return OkStatus();
    };
    request.armed = [&](const std::vector<std::string>& notes) {
      if (quiet_) return;
      for (const std::string& note : notes) std::fprintf(stderr, "brink snap: %s\n", EscapeForTerminal(note).c_str());
      std::fprintf(stderr, "brink snap: armed, Ctrl-C ends\n");
    };
    auto result = snap::Run(std::move(request));
    if (!result.ok()) return Failed(result.status(), !parsed.rest.empty());
    return Say(*result);
  }

 private:
  Status Fill(const Parsed& parsed, snap::RunRequest* request) {
    snap::SnapRequest& snap = request->snap;
    snap.triggers = triggers_;
    snap.errno_path = errno_path_;
    snap.condition = condition_;
    if (!slower_.empty()) {
      ASSIGN_OR_RETURN(snap.slower_ns, ParseDurationNs(slower_));
    }
    if (!limit_.empty()) {
      std::string number = limit_.substr(0, limit_.find('/'));
      auto limit = ParseUint(number);
      if (!limit.ok() || *limit == 0 || (limit_.size() > number.size() && limit_.substr(number.size()) != "/s")) return InvalidArgument("--limit '" + EscapeForTerminal(limit_) + "': give captures a second, as 100/s");
      snap.limit = *limit;
    }
    snap.nth = nth_;
    snap.count = count_;
    snap.once_per = once_per_;
    snap.chain_user = snap.chain_kernel = !no_chain_;
    snap.history = history_;
    snap.history_irqs = history_;
    using Branches = snap::SnapRequest::Branches;
    if (source_ == "lbr") snap.branches = Branches::kLbr;
    else if (source_ == "none") snap.branches = Branches::kNone;
    else if (source_ != "auto") return InvalidArgument("--source '" + EscapeForTerminal(source_) + "' is none of auto, lbr, none");
    using Privilege = snap::SnapRequest::Privilege;
    if (priv_ == "u") snap.privilege = Privilege::kUser;
    else if (priv_ == "k") snap.privilege = Privilege::kKernel;
    else if (priv_ == "ku" || priv_ == "uk") snap.privilege = Privilege::kBoth;
    else if (!priv_.empty()) return InvalidArgument("--priv '" + EscapeForTerminal(priv_) + "' is none of u, k, ku");
    snap.groups = groups_;
    snap.groups.pidns_of = static_cast<pid_t>(pidns_);
    snap.runtime_root = runtime_root_;
    ASSIGN_OR_RETURN(request->target.pids, ParsePids(pids_, "-p"));
    ASSIGN_OR_RETURN(request->target.tids, ParsePids(tids_, "-t"));
    request->target.command = parsed.rest;
    request->target.all_cpus = request->target.pids.empty() && request->target.tids.empty() && parsed.rest.empty();
    request->output = output_;
    request->duration_ns = duration_ns_;
    if (colour_ != "auto" && colour_ != "always" && colour_ != "never") return InvalidArgument("--color is one of auto, always, never");
    return OkStatus();
  }

  // Usage errors point into the text that they are about.
  StatusOr<int> Failed(const Status& status, bool with_command) {
    std::string text = snap::ErrorText(status);
    size_t column = snap::TriggerErrorColumn(status);
    if (!column) column = filter::ErrorColumn(status);
    if (!text.empty() && column) {
      std::fprintf(stderr, "brink snap: %s\n", Message(status).c_str());
      std::string lines = filter::CaretLines(text, column);
      size_t cut = lines.find('\n');
      std::fprintf(stderr, "  %s\n  %s\n", lines.substr(0, cut).c_str(), lines.substr(cut + 1).c_str());
      return kUsage;
    }
    if (!with_command || status.code() == absl::StatusCode::kInvalidArgument) return status;
    std::fprintf(stderr, "brink snap: %s\n", Message(status).c_str());
    return kBrinkFailed;
  }

  StatusOr<int> Say(const snap::RunResult& result) {
    if (!result.exec_error.empty()) std::fprintf(stderr, "brink snap: %s\n", result.exec_error.c_str());
    if (!result.consumer.ok()) std::fprintf(stderr, "brink snap: %s\n", Message(result.consumer).c_str());
    const uint64_t lost = result.books.samples_lost().records;
    if (!quiet_) {
      for (const StatLine& line : result.stats) {
        if (!line.text.empty()) std::fprintf(stderr, "%s\n", EscapeForTerminal(line.text).c_str());
      }
      for (size_t i = 0; i < static_cast<size_t>(LossCause::kCount); ++i) {
        const auto cause = static_cast<LossCause>(i);
        const uint64_t records = IsSampleLoss(cause) ? result.books.of(cause).records : 0;
        if (records) std::fprintf(stderr, "lost %llu: %s\n", static_cast<unsigned long long>(records), LossCauseName(cause));
      }
      std::fprintf(stderr, "%s\n", absl::StrFormat("captured %d, lost %d, detached in %s", result.captures, lost, FormatDuration(result.detach_ns)).c_str());
    }
    if (!result.consumer.ok()) return result.command_status ? kBrinkFailed : kFailed;
    if (result.command_decides && result.command_status) return *result.command_status;
    if (result.command_status == 126 || result.command_status == 127) return *result.command_status;
    return lost ? kIncomplete : kDone;
  }

  std::vector<std::string> triggers_;
  std::string errno_path_, condition_, slower_, limit_, once_per_, source_ = "auto", priv_, pids_, tids_, output_, runtime_root_, colour_ = "auto";
  uint64_t nth_ = 1, count_ = 0, duration_ns_ = 0, pidns_ = 0, most_branches_ = 32;
  bool no_chain_ = false, history_ = false, json_ = false, quiet_ = false, registers_ = false;
  snap::GroupRequest groups_;
  CommandSpec spec_{
      .name = "snap",
      .summary = "take a branch stack, call chain and context when something happens",
      .usage = "--on TRIGGER... [options] [-- command]",
      .description =
          "Arms one or more triggers in the kernel or in programs and shows each hit: arguments, result with errno name, call\n"
          "chains of kernel and user code, registers, container, and, where the CPU has branch hardware, the branches that led\n"
          "there (user branches for triggers in user code, kernel branches for triggers in the kernel: see --priv). Without\n"
          "branch hardware --history shows what the thread and the CPU did before.\n"
          "\n"
          "Triggers: tracepoint:CATEGORY:NAME, raw_tracepoint:NAME, kprobe:FUNC[+OFF], kretprobe:FUNC, fentry:FUNC, fexit:FUNC,\n"
          "uprobe:PATH:SYMBOL[+OFF]|0xADDR|FILE:LINE, uretprobe:PATH:SYMBOL, usdt:PATH[:PROVIDER]:NAME,\n"
          "syscall:NAME[:enter|exit], signal:SIG[:fatal|all|sent], exec, exit, oom, watch:ADDR:LEN:w|rw|x, sample:HZ,\n"
          "perf:EVENT:PERIOD, manual (SIGUSR1). Globs in kprobe and uprobe names; bpftrace's spellings are taken too.\n"
          "\n"
          "Conditions are decided in the kernel: pid tid comm uid cpu cgroup, args.NAME (and members: args.file->f_flags),\n"
          "args.0, ret, ctx.duration; see brink filter for the language.",
      .options =
          {{.letter = 0, .name = "on", .value = Value::kRequired, .meta = "TRIGGER", .group = "When", .help = "where to capture; several may be given", .set = AppendString(&triggers_)},
           {.letter = 0, .name = "errno-path", .value = Value::kRequired, .meta = "SYSCALL", .group = "When", .help = "arm what decides about this system call's errors; captures come innermost first", .set = StoreString(&errno_path_)},
           {.letter = 0, .name = "if", .value = Value::kRequired, .meta = "EXPR", .group = "When", .help = "only hits for which this is true", .set = StoreString(&condition_)},
           {.letter = 0, .name = "slower-than", .value = Value::kRequired, .meta = "DURATION", .group = "When", .help = "only calls that took at least this long (triggers at a return)", .set = StoreString(&slower_)},
           {.letter = 0, .name = "limit", .value = Value::kRequired, .meta = "N/s", .group = "When", .help = "at most N captures a second and trigger", .set = StoreString(&limit_)},
           {.letter = 0, .name = "once-per", .value = Value::kRequired, .meta = "KEY", .group = "When", .help = "one capture for each pid, tid, cpu, uid, comm, container, ip, ret or args.NAME", .set = StoreString(&once_per_)},
           {.letter = 0, .name = "nth", .value = Value::kRequired, .meta = "N", .group = "When", .help = "the Nth match and each Nth after it", .set = StoreUint(&nth_, 1, UINT32_MAX)},
           {.letter = 0, .name = "count", .value = Value::kRequired, .meta = "N", .group = "When", .help = "end after N captures of each trigger", .set = StoreUint(&count_, 1, UINT32_MAX)},
           {.letter = 'p', .name = "pid", .value = Value::kRequired, .meta = "PID,...", .group = "Whose", .help = "these processes and their children", .set = StoreString(&pids_)},
           {.letter = 't', .name = "tid", .value = Value::kRequired, .meta = "TID,...", .group = "Whose", .help = "these threads", .set = StoreString(&tids_)},
           {.letter = 0, .name = "container", .value = Value::kRequired, .meta = "NAME|ID", .group = "Whose", .help = "this container (id, name, namespace/pod/name) or systemd unit; it may start later", .set = AppendString(&groups_.containers)},
           {.letter = 0, .name = "pod", .value = Value::kRequired, .meta = "NS/NAME", .group = "Whose", .help = "this pod", .set = AppendString(&groups_.pods)},
           {.letter = 0, .name = "cgroup", .value = Value::kRequired, .meta = "PATH", .group = "Whose", .help = "this cgroup and those below it", .set = AppendString(&groups_.cgroups)},
           {.letter = 0, .name = "exclude-container", .value = Value::kRequired, .meta = "NAME|ID", .group = "Whose", .help = "not this container", .set = AppendString(&groups_.not_containers)},
           {.letter = 0, .name = "exclude-pod", .value = Value::kRequired, .meta = "NS/NAME", .group = "Whose", .help = "not this pod", .set = AppendString(&groups_.not_pods)},
           {.letter = 0, .name = "exclude-cgroup", .value = Value::kRequired, .meta = "PATH", .group = "Whose", .help = "not this cgroup and those below it", .set = AppendString(&groups_.not_cgroups)},
           {.letter = 0, .name = "pidns", .value = Value::kRequired, .meta = "PID", .group = "Whose", .help = "only the pid namespace of this process", .set = StoreUint(&pidns_, 1, INT32_MAX)},
           {.letter = 0, .name = "runtime-root", .value = Value::kRequired, .meta = "DIR", .group = "Whose", .help = "where the files of container runtimes are looked for; default /", .set = StoreString(&runtime_root_)},
           {.letter = 0, .name = "source", .value = Value::kRequired, .meta = "auto|lbr|none", .group = "What", .help = "branches: of the hardware, or none", .set = StoreString(&source_)},
           {.letter = 0, .name = "priv", .value = Value::kRequired, .meta = "u|k|ku", .group = "What", .help = "branches of user code, of the kernel, or both; default: of the code that the trigger stands in", .set = StoreString(&priv_)},
           {.letter = 0, .name = "history", .group = "What", .help = "also what the thread and the CPU did before: switches, system calls, interrupts", .set = StoreFlag(&history_)},
           {.letter = 0, .name = "no-chain", .group = "What", .help = "no call chains", .set = StoreFlag(&no_chain_)},
           {.letter = 0, .name = "registers", .group = "What", .help = "print the registers (signals always do)", .set = StoreFlag(&registers_)},
           {.letter = 0, .name = "branches", .value = Value::kRequired, .meta = "N", .group = "Output", .help = "print at most N branches; default 32", .set = StoreUint(&most_branches_, 0, BRINK_MAX_HW_BRANCHES)},
           {.letter = 'o', .name = "output", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "write perf.data as well; - is standard output", .set = StoreString(&output_)},
           {.letter = 0, .name = "json", .group = "Output", .help = "print a line of JSON a capture (schema brink.snap.v1)", .set = StoreFlag(&json_)},
           {.letter = 0, .name = "color", .value = Value::kRequired, .meta = "WHEN", .group = "Output", .help = "auto, always or never", .set = StoreString(&colour_)},
           {.letter = 0, .name = "duration", .value = Value::kRequired, .meta = "TIME", .group = "Output", .help = "end after this time", .set = StoreDuration(&duration_ns_, 1'000'000'000)},
           {.letter = 'q', .name = "quiet", .group = "Output", .help = "captures only", .set = StoreFlag(&quiet_)}},
      .examples = {{"brink snap --on signal:SEGV,ABRT -- ./server", "the crash flight recorder"},
                   {"brink snap --on syscall:openat --if 'ret == -EACCES' --container web", "which denied open, from where"},
                   {"brink snap --errno-path openat -- ls /root/secret", "which kernel function and branch said no"},
                   {"brink snap --on uretprobe:libc:malloc --if 'ret == 0' -p 1234", "the malloc that failed"},
                   {"brink snap --on syscall:fsync --slower-than 10ms --limit 5/s", "slow fsyncs of everybody"},
                   {"brink snap --on 'uprobe:./server:handle_*' --once-per ip --history", "each handler once, with what went before"}}};
};

}  // namespace

std::unique_ptr<Command> MakeSnap() { return std::make_unique<SnapCommand>(); }

}  // namespace brink::cli
