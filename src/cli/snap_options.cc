#include "cli/snap_options.h"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "base/strings.h"
#include "base/units.h"

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

}  // namespace

Status SnapOptions::Fill(const std::vector<std::string>& rest, snap::RunRequest* request) const {
  snap::SnapRequest& snap = request->snap;
  snap.triggers = triggers;
  snap.errno_path = errno_path;
  snap.condition = condition;
  if (!slower.empty()) {
    ASSIGN_OR_RETURN(snap.slower_ns, ParseDurationNs(slower));
  }
  if (!limit.empty()) {
    std::string number = limit.substr(0, limit.find('/'));
    auto most = ParseUint(number);
    if (!most.ok() || *most == 0 || (limit.size() > number.size() && limit.substr(number.size()) != "/s")) return InvalidArgument("--limit '" + EscapeForTerminal(limit) + "': give captures a second, as 100/s");
    snap.limit = *most;
  }
  snap.nth = nth;
  snap.count = count;
  snap.once_per = once_per;
  snap.chain_user = snap.chain_kernel = !no_chain;
  snap.history = history;
  snap.history_irqs = history;
  using Branches = snap::SnapRequest::Branches;
  if (source == "lbr") snap.branches = Branches::kLbr;
  else if (source == "none") snap.branches = Branches::kNone;
  else if (source == "walk") snap.branches = Branches::kWalk;
  else if (source == "step" || source == "hop") return InvalidArgument("--source " + source + " follows a span of code: it goes with --trace-between");
  else if (source != "auto") return InvalidArgument("--source '" + EscapeForTerminal(source) + "' is none of auto, lbr, walk, none");
  if (depth && snap.branches != Branches::kWalk) return InvalidArgument("--depth goes with --source walk and --trace-between");
  if (depth > BRINK_MAX_WALK_BRANCHES) return InvalidArgument("--depth: --source walk takes at most " + std::to_string(BRINK_MAX_WALK_BRANCHES) + " branches");
  snap.depth = static_cast<uint32_t>(depth);
  using Privilege = snap::SnapRequest::Privilege;
  if (priv == "u") snap.privilege = Privilege::kUser;
  else if (priv == "k") snap.privilege = Privilege::kKernel;
  else if (priv == "ku" || priv == "uk") snap.privilege = Privilege::kBoth;
  else if (!priv.empty()) return InvalidArgument("--priv '" + EscapeForTerminal(priv) + "' is none of u, k, ku");
  if (groups.probe_all && !groups.wants()) return InvalidArgument("--probe-all goes with --container, --pod or --cgroup: without them probes are for everybody, or for the process of -p");
  snap.groups = groups;
  snap.groups.pidns_of = static_cast<pid_t>(pidns);
  snap.runtime_root = runtime_root;
  ASSIGN_OR_RETURN(request->target.pids, ParsePids(pids, "-p"));
  ASSIGN_OR_RETURN(request->target.tids, ParsePids(tids, "-t"));
  request->target.command = rest;
  request->target.all_cpus = request->target.pids.empty() && request->target.tids.empty() && rest.empty();
  request->output = output;
  request->duration_ns = duration_ns;
  if (colour != "auto" && colour != "always" && colour != "never") return InvalidArgument("--color is one of auto, always, never");
  return OkStatus();
}

Status SnapOptions::FillTrace(const std::vector<std::string>& rest, snap::TraceRequest* request) const {
  const bool others = !triggers.empty() || !errno_path.empty() || !condition.empty() || !slower.empty() || !limit.empty() || !once_per.empty() || nth != 1 || !output.empty() || history || groups.wants() || groups.excludes();
  if (others) return InvalidArgument("--trace-between stands alone: it goes with -p or a command, --source, --depth, --count, --duration and --json");
  request->span = trace_between;
  request->source = source;
  request->depth = static_cast<uint32_t>(depth);
  request->count = count;
  request->duration_ns = duration_ns;
  ASSIGN_OR_RETURN(request->target.pids, ParsePids(pids, "-p"));
  request->target.command = rest;
  if (!tids.empty()) return InvalidArgument("--trace-between takes a process (-p), not -t");
  return OkStatus();
}

snap::PrintOptions SnapOptions::Print() const { return {.registers = registers, .most_branches = most_branches, .realtime_offset_ns = RealtimeOffset()}; }

std::vector<Option> SnapOptions::WhenOptions() {
  return {
    {.letter = 0, .name = "on", .value = Value::kRequired, .meta = "TRIGGER", .group = "When", .help = "where to capture; several may be given", .set = AppendString(&triggers)},
    {.letter = 0, .name = "errno-path", .value = Value::kRequired, .meta = "SYSCALL", .group = "When", .help = "arm what decides about this system call's errors; captures come innermost first", .set = StoreString(&errno_path)},
    {.letter = 0, .name = "trace-between", .value = Value::kRequired, .meta = "PATH:ENTRY..EXIT", .group = "When", .help = "instead of --on: the user branches of this span of code, each time it is entered; without EXIT until it returns", .set = StoreString(&trace_between)},
    {.letter = 0, .name = "if", .value = Value::kRequired, .meta = "EXPR", .group = "When", .help = "only hits for which this is true", .set = [this](std::string_view v) -> Status {
       // An unset variable of a script is not the wish for everything.
       if (Trim(v).empty()) return InvalidArgument("--if is empty");
       condition = std::string(v);
       return OkStatus();
     }},
    {.letter = 0, .name = "slower-than", .value = Value::kRequired, .meta = "DURATION", .group = "When", .help = "only calls that took at least this long (triggers at a return)", .set = StoreString(&slower)},
    {.letter = 0, .name = "limit", .value = Value::kRequired, .meta = "N/s", .group = "When", .help = "at most N captures a second and trigger", .set = StoreString(&limit)},
    {.letter = 0, .name = "once-per", .value = Value::kRequired, .meta = "KEY", .group = "When", .help = "one capture for each pid, tid, cpu, uid, comm, container, ip, ret or args.NAME", .set = StoreString(&once_per)},
    {.letter = 0, .name = "nth", .value = Value::kRequired, .meta = "N", .group = "When", .help = "the Nth match and each Nth after it", .set = StoreUint(&nth, 1, UINT32_MAX)},
    {.letter = 0, .name = "count", .value = Value::kRequired, .meta = "N", .group = "When", .help = "end after N captures of each trigger", .set = StoreUint(&count, 1, UINT32_MAX)}};
}

std::vector<Option> SnapOptions::WhoseOptions() {
  return {
    {.letter = 'p', .name = "pid", .value = Value::kRequired, .meta = "PID,...", .group = "Whose", .help = "these processes and their children", .set = StoreString(&pids)},
    {.letter = 't', .name = "tid", .value = Value::kRequired, .meta = "TID,...", .group = "Whose", .help = "these threads", .set = StoreString(&tids)},
    {.letter = 0, .name = "container", .value = Value::kRequired, .meta = "NAME|ID", .group = "Whose", .help = "this container (id, name, namespace/pod/name) or systemd unit; it may start later", .set = AppendString(&groups.containers)},
    {.letter = 0, .name = "pod", .value = Value::kRequired, .meta = "NS/NAME", .group = "Whose", .help = "this pod", .set = AppendString(&groups.pods)},
    {.letter = 0, .name = "cgroup", .value = Value::kRequired, .meta = "PATH", .group = "Whose", .help = "this cgroup and those below it", .set = AppendString(&groups.cgroups)},
    {.letter = 0, .name = "probe-all", .group = "Whose", .help = "user probes of containers, pods and cgroups: hit by everybody who runs the program (20 us each, dropped), and so from the first instruction of a process on. Without it they are set in each process of the groups, a moment after its start", .set = StoreFlag(&groups.probe_all)},
    {.letter = 0, .name = "exclude-container", .value = Value::kRequired, .meta = "NAME|ID", .group = "Whose", .help = "not this container", .set = AppendString(&groups.not_containers)},
    {.letter = 0, .name = "exclude-pod", .value = Value::kRequired, .meta = "NS/NAME", .group = "Whose", .help = "not this pod", .set = AppendString(&groups.not_pods)},
    {.letter = 0, .name = "exclude-cgroup", .value = Value::kRequired, .meta = "PATH", .group = "Whose", .help = "not this cgroup and those below it", .set = AppendString(&groups.not_cgroups)},
    {.letter = 0, .name = "pidns", .value = Value::kRequired, .meta = "PID", .group = "Whose", .help = "only the pid namespace of this process", .set = StoreUint(&pidns, 1, INT32_MAX)},
    {.letter = 0, .name = "runtime-root", .value = Value::kRequired, .meta = "DIR", .group = "Whose", .help = "where the files of container runtimes are looked for; default /", .set = StoreString(&runtime_root)}};
}

std::vector<Option> SnapOptions::WhatOptions() {
  return {
    {.letter = 0, .name = "depth", .value = Value::kRequired, .meta = "N", .group = "What", .help = "--source walk, --trace-between: most branches", .set = StoreUint(&depth, 1, 65535)},
    {.letter = 0, .name = "source", .value = Value::kRequired, .meta = "auto|lbr|none|walk|step|hop", .group = "What", .help = "branches: lbr, those that led here, of the hardware; walk, those that follow; none. auto: lbr, without the hardware walk at user probes of -p or a command. Of --trace-between: walk, step (exact, slow) or hop", .set = StoreString(&source)},
    {.letter = 0, .name = "priv", .value = Value::kRequired, .meta = "u|k|ku", .group = "What", .help = "branches of user code, of the kernel, or both; default: of the code that the trigger stands in", .set = StoreString(&priv)},
    {.letter = 0, .name = "history", .group = "What", .help = "also what the thread and the CPU did before: switches, system calls, interrupts", .set = StoreFlag(&history)},
    {.letter = 0, .name = "no-chain", .group = "What", .help = "no call chains", .set = StoreFlag(&no_chain)},
    {.letter = 0, .name = "registers", .group = "What", .help = "print the registers (signals always do)", .set = StoreFlag(&registers)}};
}

std::vector<Option> SnapOptions::OutputOptions() {
  return {
    {.letter = 0, .name = "branches", .value = Value::kRequired, .meta = "N", .group = "Output", .help = "print at most N branches; default 32", .set = StoreUint(&most_branches, 0, BRINK_MAX_HW_BRANCHES)},
    {.letter = 'o', .name = "output", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "write perf.data as well; - is standard output", .set = StoreString(&output)},
    {.letter = 0, .name = "json", .group = "Output", .help = "print a line of JSON a capture (schema brink.snap.v1)", .set = StoreFlag(&json)},
    {.letter = 0, .name = "color", .value = Value::kRequired, .meta = "WHEN", .group = "Output", .help = "auto, always or never", .set = StoreString(&colour)},
    {.letter = 0, .name = "duration", .value = Value::kRequired, .meta = "TIME", .group = "Output", .help = "end after this time", .set = StoreDuration(&duration_ns, 1'000'000'000)},
    {.letter = 'q', .name = "quiet", .group = "Output", .help = "captures only", .set = StoreFlag(&quiet)}};
}

SnapOptions::SnapOptions() {
  command = {
      .name = "snap",
      .summary = "take a branch stack, call chain and context when something happens",
      .usage = "--on TRIGGER... [options] [-- command]",
      .description =
          "Arms one or more triggers in the kernel or in programs and shows each hit: arguments, result with errno name, call\n"
          "chains of kernel and user code, registers, container, and, where the CPU has branch hardware, the branches that led\n"
          "there (user branches for triggers in user code, kernel branches for triggers in the kernel: see --priv). Without\n"
          "branch hardware --history shows what the thread and the CPU did before, and the walker what the thread does next: its user\n"
          "code is executed in the kernel from the event on. Those branches follow the event, they did not lead to it. At uprobes, usdt\n"
          "probes and watchpoints of -p or a command that is the default (Linux 6.18), elsewhere it is asked for by --source walk.\n"
          "\n"
          "Triggers: tracepoint:CATEGORY:NAME, raw_tracepoint:NAME, kprobe:FUNC[+OFF], kretprobe:FUNC, fentry:FUNC, fexit:FUNC,\n"
          "uprobe:PATH:SYMBOL[+OFF]|0xADDR|FILE:LINE, uretprobe:PATH:SYMBOL, usdt:PATH[:PROVIDER]:NAME,\n"
          "syscall:NAME[:enter|exit], signal:SIG[:fatal|all|sent], exec, exit, oom, watch:ADDR:LEN:w|rw|x, sample:HZ,\n"
          "perf:EVENT:PERIOD, manual (SIGUSR1, or Enter). Globs in kprobe and uprobe names; bpftrace's spellings are taken too.\n"
          "\n"
          "--trace-between shows what follows an event, not what led to it: from ENTRY on, user branches are executed in the kernel\n"
          "(walk) or followed by ptrace (step, hop) to EXIT. With a command it works on the program itself, started without\n"
          "address randomisation.\n"
          "\n"
          "Conditions are decided in the kernel: pid tid comm uid cpu cgroup, args.NAME (and members: args.file->f_flags),\n"
          "args.0, ret, ctx.duration; see brink filter for the language.",
      .options = WhenOptions(),
      .examples = {{"brink snap --on signal:SEGV,ABRT -- ./server", "the crash flight recorder"},
                   {"brink snap --on syscall:openat --if 'ret == -EACCES' --container web", "which denied open, from where"},
                   {"brink snap --errno-path openat -- ls /root/secret", "which kernel function and branch said no"},
                   {"brink snap --on uretprobe:libc:malloc --if 'ret == 0' -p 1234", "the malloc that failed"},
                   {"brink snap --on syscall:fsync --slower-than 10ms --limit 5/s", "slow fsyncs of everybody"},
                   {"brink snap --on 'uprobe:./server:handle_*' --once-per ip --history", "each handler once, with what went before"},
                   {"brink snap --trace-between ./parse:check_header --source step -- ./parse file", "which branches decided, without branch hardware"}}};
  for (std::vector<Option> more : {WhoseOptions(), WhatOptions(), OutputOptions()}) std::move(more.begin(), more.end(), std::back_inserter(command.options));
}

}  // namespace brink::cli
