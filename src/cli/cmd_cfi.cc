// brink cfi run|learn|replay|explain: control-flow integrity, live and of a recording.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cfi/event_text.h"
#include "cfi/replay.h"
#include "cli/commands.h"
#include "cli/interleave.h"
#include "kernel/privileges.h"
#include "monitor/run.h"

namespace brink::cli {
namespace {

constexpr uint64_t kShareOfFew = 5, kShareOfAll = 1;  // --share

class CfiCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override {
    const bool reads = !parsed.rest.empty() && (parsed.rest[0] == "replay" || parsed.rest[0] == "explain");
    return reads ? std::optional(AllOutputs(spec_, parsed)) : std::nullopt;
  }

  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(std::vector<std::string> words, TakeLaterOptions(spec_, parsed));
    const std::string verb = parsed.after_dashes || words.empty() ? "run" : words[0];
    if (!parsed.after_dashes && !words.empty()) words.erase(words.begin());
    if (verb == "run" || verb == "learn") return RunLive(verb == "learn", words);
    if (verb != "replay" && verb != "explain") return InvalidArgument("'" + EscapeForTerminal(verb) + "' is none of run, learn, replay, explain (a command to watch stands behind --)");
    if (words.size() != 1) return InvalidArgument("say brink cfi replay FILE, or brink cfi explain EVENT");
    return verb == "replay" ? RunReplay(words[0]) : RunExplain(words[0]);
  }

 private:
  StatusOr<int> RunReplay(const std::string& path) {
    ASSIGN_OR_RETURN(cfi::ReplayReport report, cfi::Replay(path, options_));
    std::string out;
    size_t number = 0, hidden = 0;
    bool failed = false;
    for (const cfi::Event& event : report.events) {
      failed |= fail_on_ && event.violation.severity >= *fail_on_;
      if (event.violation.severity < least_) {
        ++hidden;
        continue;
      }
      out += json_ ? cfi::EventJson(event) + "\n" : cfi::EventText(event, ++number) + "\n";
    }
    if (json_) {
      out += cfi::SummaryJson(report) + "\n";
    } else {
      if (!number) out += "no violation of severity " + std::string(cfi::SeverityName(least_)) + " or above\n";
      if (hidden) out += std::to_string(hidden) + " places of lower severity are not shown (--min-severity low)\n";
      out += "\n" + cfi::SummaryText(report);
    }
    if (file_.empty()) {
      RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, out.data(), out.size()));
    } else {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(file_, O_WRONLY | O_CREAT | O_TRUNC));
      RETURN_IF_ERROR(WriteAll(fd.get(), out.data(), out.size()));
    }
    return failed ? kConditionMet : report.damaged ? kIncomplete : kDone;
  }

  StatusOr<int> RunExplain(const std::string& word) {
    std::string text = word;
    if (!Trim(word).starts_with("{")) {
      ASSIGN_OR_RETURN(text, ReadFile(word == "-" ? "/dev/stdin" : word, 16u << 20));
    }
    bool any = false;
    for (std::string_view line : Split(text, '\n')) {
      line = Trim(line);
      if (line.empty() || line.find("brink.cfi.summary.v1") != std::string_view::npos) continue;
      ASSIGN_OR_RETURN(std::string words, cfi::Explain(line));
      std::printf("%s%s", any ? "\n" : "", words.c_str());
      any = true;
    }
    if (!any) return InvalidArgument("no event in " + EscapeForTerminal(word));
    return kDone;
  }

  // The verdicts made in BPF on which an action is taken.
  static StatusOr<uint32_t> Verdicts(const std::string& list, const char* option) {
    uint32_t bits = 0;
    for (std::string_view word : Split(list, ',')) {
      if (word.empty()) continue;
      const uint32_t bit = word == "P1" ? BRINK_CFI_P1 : word == "P2" ? BRINK_CFI_P2 : word == "P8" ? BRINK_CFI_P8 : 0;
      if (!bit) return InvalidArgument(std::string(option) + ": the kernel decides on P1, P2 and P8, not on '" + EscapeForTerminal(word) + "'");
      bits |= bit;
    }
    return bits;
  }

  static StatusOr<std::vector<pid_t>> Pids(const std::string& list) {
    std::vector<pid_t> pids;
    for (std::string_view word : Split(list, ',')) {
      if (word.empty()) continue;
      auto pid = ParseUint(word);
      if (!pid.ok() || *pid == 0 || *pid > INT32_MAX) return InvalidArgument("-p: '" + EscapeForTerminal(word) + "' is no process id");
      pids.push_back(static_cast<pid_t>(*pid));
    }
    return pids;
  }

  Status FillChecks(bool narrow, cfi::CheckRequest* check) {
    check->set = narrow ? cfi::CallSet::kAll : cfi::CallSet::kSensitive;
    if (!set_.empty()) {
      ASSIGN_OR_RETURN(check->set, cfi::ParseCallSet(set_));
    }
    check->calls = calls_;
    check->history = history_;
    check->hook = hook_;
    check->warm = warm_;
    check->attach_only = attach_only_;
    check->switches = switches_;
    check->depth = static_cast<uint32_t>(depth_);
    check->budget_ns = budget_ns_;
    check->share_permille = static_cast<uint32_t>((share_ ? share_ : narrow ? kShareOfFew : kShareOfAll) * 10);
    check->stays = !narrow;
    brink_cfi_config& config = check->config;
    ASSIGN_OR_RETURN(config.kill, Verdicts(kill_, "--kill"));
    ASSIGN_OR_RETURN(config.stop, Verdicts(stop_, "--stop"));
    ASSIGN_OR_RETURN(config.deny, Verdicts(deny_, "--deny"));
    config.per_minute = static_cast<uint32_t>(per_minute_);
    if (!act_) config.flags |= BRINK_CFI_CFG_DRY;
    if (repeats_) config.flags |= BRINK_CFI_CFG_REPEATS;
    if (!narrow) config.flags |= BRINK_CFI_CFG_PATIENT;
    if (uid_ != UINT64_MAX) {
      config.flags |= BRINK_CFI_CFG_UID;
      config.uid = static_cast<uint32_t>(uid_);
    }
    if (spared_.size() > BRINK_CFI_SPARED - 2) return InvalidArgument("--spare: at most 6 names");
    size_t at = 0;
    for (const std::string& name : {std::string("containerd"), std::string("dockerd")}) name.copy(config.spared[at++], 15);
    for (const std::string& name : spared_) name.copy(config.spared[at++], 15);
    return OkStatus();
  }

  StatusOr<int> RunLive(bool learn, const std::vector<std::string>& command) {
    RETURN_IF_ERROR(RequireRecordingRights(CapSet::ReadEffective()));
    cfi::RunRequest request;
    ASSIGN_OR_RETURN(request.target.pids, Pids(pids_));
    request.target.command = command;
    request.target.cgroups = cgroups_;
    request.containers = containers_;
    request.pods = pods_;
    const bool grouped = !cgroups_.empty() || !containers_.empty() || !pods_.empty();
    request.target.all_cpus = all_ || (request.target.pids.empty() && command.empty() && !grouped);
    if (learn && output_.empty()) return InvalidArgument("brink cfi learn wants -o FILE");
    if (!learn && !output_.empty()) return InvalidArgument("-o is for brink cfi learn; alarms go to --sink");
    RETURN_IF_ERROR(FillChecks(!request.target.all_cpus && !grouped, &request.check));
    request.runtime_root = runtime_root_;
    request.learn = learn ? output_ : "";
    request.baseline = baseline_;
    request.policies = policies_;
    request.metrics = metrics_;
    request.snapshots = snapshots_;
    request.jit_allowed = options_.jit_allowed;
    request.least = least_;
    request.act = act_;
    request.every = every_;
    request.duration_ns = duration_ns_;
    request.sample_period_ns = sample_ ? 1'000'000'000 / sample_ : 0;
    request.check.samples = sample_ != 0;
    request.warm = !no_warm_;
    if (json_) sinks_.push_back("json:" + (file_.empty() ? "-" : file_));
    request.sinks = sinks_.empty() ? std::vector<std::string>{"text:-"} : sinks_;
    timespec real, mono;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    auto ns = [](const timespec& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec); };
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    request.text = {.colour = isatty(STDOUT_FILENO) != 0, .realtime_offset_ns = ns(real) - ns(mono), .host = host};
    request.armed = [this](const std::vector<std::string>& notes) {
      if (quiet_) return;
      for (const std::string& note : notes) std::fprintf(stderr, "brink cfi: %s\n", EscapeForTerminal(note).c_str());
      std::fprintf(stderr, "brink cfi: watching, Ctrl-C ends\n");
    };
    if (!quiet_) request.say = [](const std::string& line) { std::fprintf(stderr, "brink cfi: %s\n", line.c_str()); };
    auto report = cfi::RunMonitor(std::move(request));
    if (!report.ok()) return report.status();
    return Say(*report);
  }

  StatusOr<int> Say(const cfi::RunReport& report) {
    if (!report.exec_error.empty()) std::fprintf(stderr, "brink cfi: %s\n", report.exec_error.c_str());
    if (!report.consumer.ok()) std::fprintf(stderr, "brink cfi: %s\n", Message(report.consumer).c_str());
    if (!report_.empty()) {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(report_, O_WRONLY | O_CREAT | O_TRUNC));
      const std::string text = cfi::ReportJson(report) + "\n";
      RETURN_IF_ERROR(WriteAll(fd.get(), text.data(), text.size()));
    }
    if (!quiet_) std::fprintf(stderr, "%s", cfi::ReportText(report).c_str());
    if (!report.consumer.ok()) return report.command_status ? kBrinkFailed : kFailed;
    if (fail_on_) {
      for (size_t s = static_cast<size_t>(*fail_on_); s < 4; ++s) {
        if (report.judge.alarms[s]) return kConditionMet;
      }
    }
    if (report.command_status == 126 || report.command_status == 127) return *report.command_status;
    if (report.command_decides && report.command_status) return *report.command_status;
    return kDone;
  }

  Setter StoreSeverity(std::optional<cfi::Severity>* out) {
    return [out](std::string_view text) -> Status {
      ASSIGN_OR_RETURN(*out, cfi::ParseSeverity(text));
      return OkStatus();
    };
  }

  cfi::ReplayOptions options_;
  cfi::Severity least_ = cfi::Severity::kMedium;
  std::optional<cfi::Severity> fail_on_;
  bool json_ = false;
  std::string file_;
  std::string pids_, set_, kill_, stop_, deny_, runtime_root_, output_, baseline_, metrics_, report_, snapshots_;
  std::vector<std::string> cgroups_, containers_, pods_, calls_, spared_, policies_, sinks_, warm_;
  uint64_t uid_ = UINT64_MAX, depth_ = 32, budget_ns_ = 0, share_ = 0, per_minute_ = 10, duration_ns_ = 0, sample_ = 0;
  cfi::History history_ = cfi::History::kAuto;
  cfi::Hook hook_ = cfi::Hook::kAuto;
  bool all_ = false, act_ = false, every_ = false, repeats_ = false, attach_only_ = false, switches_ = false, no_warm_ = false, quiet_ = false;
  CommandSpec spec_{
      .name = "cfi",
      .summary = "control-flow integrity: broken returns, calls and jumps, live and in recordings",
      .usage = "[run] [options] [-- command] | learn -o FILE [options] [-- command] | replay [options] FILE | explain EVENT",
      .description =
          "run (the default): watches processes. At chosen system calls, fatal signals and samples the code that a thread is about to\n"
          "execute is walked ahead in the kernel, the path is judged, and each broken edge is told with its evidence. Without branch\n"
          "hardware and without touching the process. What cannot be seen: docs/cfi.md.\n"
          "learn: the same, and writes what was seen to FILE, for --baseline.\n"
          "replay: runs the policies P1 to P9 over every branch stack of a recording, of brink or perf, and shows each broken edge with\n"
          "its evidence. Facts come from the program files of this machine, found by build-id. What cannot be known raises nothing\n"
          "and is counted.\n"
          "explain: says in words what an event (a line of replay --json, a file of them, or -) means.",
      .options = {{.letter = 'p', .name = "pid", .value = Value::kRequired, .meta = "PID,...", .group = "Whom (run, learn)", .help = "processes, and what they fork", .set = StoreString(&pids_)},
                  {.letter = 'a', .name = "all-cpus", .group = "Whom (run, learn)", .help = "everybody; the default without a command or another target", .set = StoreFlag(&all_)},
                  {.letter = 'G', .name = "cgroup", .value = Value::kRequired, .meta = "PATH", .group = "Whom (run, learn)", .help = "tasks below a cgroup", .set = AppendString(&cgroups_)},
                  {.letter = 0, .name = "container", .value = Value::kRequired, .meta = "NAME", .group = "Whom (run, learn)", .help = "tasks of a container: name, id, pod/name", .set = AppendString(&containers_)},
                  {.letter = 0, .name = "pod", .value = Value::kRequired, .meta = "NS/NAME", .group = "Whom (run, learn)", .help = "tasks of a pod", .set = AppendString(&pods_)},
                  {.letter = 'u', .name = "uid", .value = Value::kRequired, .meta = "UID", .group = "Whom (run, learn)", .help = "only threads of this user", .set = StoreUint(&uid_, 0, UINT32_MAX - 1)},
                  {.letter = 0, .name = "runtime-root", .value = Value::kRequired, .meta = "DIR", .group = "Whom (run, learn)", .help = "where the files of container runtimes are looked for; default /", .set = StoreString(&runtime_root_)},
                  {.letter = 0, .name = "check", .value = Value::kRequired, .meta = "SET", .group = "When (run, learn)", .help = "system calls that are check points: sensitive (the default for -a and groups), all (for a command and -p), none", .set = StoreString(&set_)},
                  {.letter = 0, .name = "calls", .value = Value::kRequired, .meta = "LIST", .group = "When (run, learn)", .help = "more or fewer: NAME (at its entry), NAME:exit, NAME:both, -NAME", .set = AppendString(&calls_)},
                  {.letter = 0, .name = "source", .value = Value::kRequired, .meta = "S", .group = "When (run, learn)", .help = "what entries are judged by: lbr (hardware branches that led there), walk (ahead), auto (the default: lbr where it proves itself)",
                   .set = [this](std::string_view text) -> Status {
                     if (text != "auto" && text != "walk" && text != "lbr") return InvalidArgument("--source of cfi is auto, walk or lbr");
                     history_ = text == "lbr" ? cfi::History::kLbr : text == "walk" ? cfi::History::kWalk : cfi::History::kAuto;
                     return OkStatus();
                   }},
                  {.letter = 'F', .name = "freq", .value = Value::kRequired, .meta = "HZ", .group = "When (run, learn)", .help = "also at periodic samples of running threads", .set = StoreUint(&sample_, 1, 10'000)},
                  {.letter = 0, .name = "switches", .group = "When (run, learn)", .help = "also when a thread is preempted", .set = StoreFlag(&switches_)},
                  {.letter = 0, .name = "hook", .value = Value::kRequired, .meta = "H", .group = "When (run, learn)", .help = "raw: one program at all system calls; calls: one tracepoint a chosen call, cheaper for the others, but brink takes seconds to end; auto (the default): calls where at most 64 are chosen",
                   .set = [this](std::string_view text) -> Status {
                     if (text != "auto" && text != "raw" && text != "calls") return InvalidArgument("--hook is auto, raw or calls");
                     hook_ = text == "raw" ? cfi::Hook::kRaw : text == "calls" ? cfi::Hook::kCalls : cfi::Hook::kAuto;
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "attach-only", .group = "When (run, learn)", .help = "attach and select nothing: what the hooks alone cost", .set = StoreFlag(&attach_only_)},
                  {.letter = 0, .name = "depth", .value = Value::kRequired, .meta = "N", .group = "When (run, learn)", .help = "branches walked ahead; default 32, at most 128", .set = StoreUint(&depth_, 1, BRINK_CFI_DEPTH)},
                  {.letter = 0, .name = "walk-budget", .value = Value::kRequired, .meta = "TIME", .group = "When (run, learn)", .help = "of one walk; default 50us", .set = StoreDuration(&budget_ns_, 1'000)},
                  {.letter = 0, .name = "share", .value = Value::kRequired, .meta = "PERCENT", .group = "When (run, learn)", .help = "most time of a CPU, and of a thread, for checks; default 5 for a command and -p, else 1. Sensitive calls are checked all the same", .set = StoreUint(&share_, 1, 100)},
                  {.letter = 0, .name = "no-warm", .group = "When (run, learn)", .help = "do not lift the target's files before it runs", .set = StoreFlag(&no_warm_)},
                  {.letter = 0, .name = "warm", .value = Value::kRequired, .meta = "FILE", .group = "When (run, learn)", .help = "also lift the code of this file before anything runs; may be repeated", .set = AppendString(&warm_)},
                  {.letter = 0, .name = "repeats", .group = "When (run, learn)", .help = "judge windows again that were judged before", .set = StoreFlag(&repeats_)},
                  {.letter = 0, .name = "duration", .value = Value::kRequired, .meta = "TIME", .group = "When (run, learn)", .help = "end after this time", .set = StoreDuration(&duration_ns_, 1'000'000'000)},
                  {.letter = 0, .name = "policy", .value = Value::kRequired, .meta = "FILE", .group = "Rules (run)", .help = "policy file (docs/cfi.md); several add up; SIGHUP reads them again", .set = AppendString(&policies_)},
                  {.letter = 0, .name = "baseline", .value = Value::kRequired, .meta = "FILE", .group = "Rules (run)", .help = "what brink cfi learn wrote: P12 and P13", .set = StoreString(&baseline_)},
                  {.letter = 'o', .name = "output", .value = Value::kRequired, .meta = "FILE", .group = "Rules (run)", .help = "learn: where to write", .set = StoreString(&output_)},
                  {.letter = 0, .name = "sink", .value = Value::kRequired, .meta = "SINK", .group = "Alarms (run)", .help = "where alarms go; may be repeated. text:FILE, json:FILE, ocsf:FILE, falco:FILE (- is standard output), unix:PATH, webhook:http://HOST:PORT/PATH, syslog, journald; default text:-", .set = AppendString(&sinks_)},
                  {.letter = 0, .name = "every", .group = "Alarms (run)", .help = "tell an alarm each time, not once a minute with a count", .set = StoreFlag(&every_)},
                  {.letter = 0, .name = "metrics", .value = Value::kRequired, .meta = "FILE", .group = "Alarms (run)", .help = "Prometheus counters, written anew every 5 s and at SIGUSR1", .set = StoreString(&metrics_)},
                  {.letter = 0, .name = "report", .value = Value::kRequired, .meta = "FILE", .group = "Alarms (run)", .help = "counts of the run as JSON", .set = StoreString(&report_)},
                  {.letter = 'q', .name = "quiet", .group = "Alarms (run)", .help = "alarms only", .set = StoreFlag(&quiet_)},
                  {.letter = 0, .name = "kill", .value = Value::kRequired, .meta = "RULES", .group = "Actions (run)", .help = "end the process where the kernel finds P1, P2 or P8 broken (a list)", .set = StoreString(&kill_)},
                  {.letter = 0, .name = "stop", .value = Value::kRequired, .meta = "RULES", .group = "Actions (run)", .help = "stop it", .set = StoreString(&stop_)},
                  {.letter = 0, .name = "deny", .value = Value::kRequired, .meta = "RULES", .group = "Actions (run)", .help = "refuse the exec or the protection change (where the kernel has BPF LSM)", .set = StoreString(&deny_)},
                  {.letter = 0, .name = "act", .group = "Actions (run)", .help = "really do it: without this every action, those of policy files too, is a dry run that counts", .set = StoreFlag(&act_)},
                  {.letter = 0, .name = "snapshots", .value = Value::kRequired, .meta = "DIR", .group = "Actions (run)", .help = "where policy files' snapshots go: registers, stack, mappings and branches of a process, one file each", .set = StoreString(&snapshots_)},
                  {.letter = 0, .name = "actions-per-minute", .value = Value::kRequired, .meta = "N", .group = "Actions (run)", .help = "most actions in a minute; default 10", .set = StoreUint(&per_minute_, 0, 1'000'000)},
                  {.letter = 0, .name = "spare", .value = Value::kRequired, .meta = "COMM", .group = "Actions (run)", .help = "never act against programs of this name; init, brink, containerd and dockerd are always spared", .set = AppendString(&spared_)},
                  {.letter = 0, .name = "min-severity", .value = Value::kRequired, .meta = "S", .help = "show info, low, medium (the default) or high and above",
                   .set = [this](std::string_view text) -> Status {
                     ASSIGN_OR_RETURN(least_, cfi::ParseSeverity(text));
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "fail-on", .value = Value::kRequired, .meta = "S", .help = "exit status 4 where an event is of this severity or above", .set = StoreSeverity(&fail_on_)},
                  {.letter = 0, .name = "jit", .value = Value::kRequired, .meta = "allow|deny", .help = "whether anonymous code is legal; deny is the default, code that a jitdump explains is legal",
                   .set = [this](std::string_view text) -> Status {
                     if (text != "allow" && text != "deny") return InvalidArgument("--jit is allow or deny");
                     options_.jit_allowed = text == "allow";
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "symfs", .value = Value::kRequired, .meta = "DIR", .help = "look for recorded files below DIR only", .set = StoreString(&options_.locate.symfs)},
                  {.letter = 0, .name = "json", .value = Value::kOptional, .meta = "FILE", .help = "JSON lines (docs/schema/cfi.json, of run cfi_alarm.json), on standard output or in FILE",
                   .writes = true, .set = [this](std::string_view file) {
                     json_ = true;
                     file_ = file;
                     return OkStatus();
                   }}},
      .examples = {{"brink cfi -- ./server", "watch a program"},
                   {"brink cfi run -a --sink json:/var/log/brink-cfi.json --metrics /var/lib/node_exporter/brink.prom", "everybody, at sensitive calls"},
                   {"brink cfi learn -o base -p 1234 --duration 1h; brink cfi run --baseline base -p 1234", "what is new"},
                   {"brink cfi run --kill P1,P8 --act -p 1234", "end it before the broken return executes"},
                   {"brink cfi replay brink.data", "Broken edges of a recording."},
                   {"brink cfi replay --json perf.data | head -1 | brink cfi explain -", "One of them in words."},
                   {"brink cfi replay --fail-on medium brink.data", "As a check."}}};
};

}  // namespace

std::unique_ptr<Command> MakeCfi() { return std::make_unique<CfiCommand>(); }

}  // namespace brink::cli
