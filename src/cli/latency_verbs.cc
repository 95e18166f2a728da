#include "cli/latency_verbs.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/interleave.h"
#include "cli/options.h"
#include "kernel/tracefs.h"
#include "latency/busy.h"
#include "latency/oslat_text.h"
#include "latency/trace.h"
#include "latency/watch.h"

namespace brink::cli {
namespace {

using latency::Document;

struct Forms {
  std::string format, save, plot, folded;
  uint64_t max_spikes = 10;
  uint64_t buckets = 32;  // of the form oslat
  bool zero_omit = false;
  uint64_t fail_above_ns = UINT64_MAX;
};

void AddForms(Forms* forms, std::vector<Option>* options) {
  std::vector<Option> own = {
      {.name = "format", .value = Value::kRequired, .meta = "NAME", .group = "Output", .help = "text, json, csv; of busy also oslat: as oslat (rt-tests) prints it.", .set = StoreString(&forms->format)},
      {.name = "buckets", .value = Value::kRequired, .meta = "N", .group = "Output", .help = "Of --format oslat: buckets of 1 us, 4..1024; 32 without it.", .set = StoreUint(&forms->buckets, 4, 1024)},
      {.name = "zero-omit", .group = "Output", .help = "Of --format oslat: no lines of empty buckets.", .set = StoreFlag(&forms->zero_omit)},
      {.name = "save", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Everything as JSON, for brink latency report.", .set = StoreString(&forms->save)},
      {.name = "plot", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Histogram as FILE.svg, FILE.html or FILE.png.", .set = StoreString(&forms->plot)},
      {.name = "folded", .value = Value::kRequired, .meta = "FILE", .group = "Output", .help = "Paths of ordinary and of late wake-ups with their numbers, for flamegraph.pl.", .set = StoreString(&forms->folded)},
      {.name = "max-spikes", .value = Value::kRequired, .meta = "N", .group = "Output", .help = "Reports printed, the worst first; 10 without it.", .set = StoreUint(&forms->max_spikes, 0, 100000)},
      {.name = "fail-above", .value = Value::kRequired, .meta = "US", .group = "Output", .help = "Exit with status 4 when anything was above US.", .set = StoreDuration(&forms->fail_above_ns, 1000)},
  };
  for (Option& option : own) options->push_back(std::move(option));
}

// Before anything is measured: a word that is no form, or not one of this kind of result.
Status CheckForm(const Forms& forms, bool busy) {
  if (forms.format.empty() || forms.format == "text" || forms.format == "json" || forms.format == "csv" || (busy && forms.format == "oslat")) return OkStatus();
  return InvalidArgument("--format: '" + EscapeForTerminal(forms.format) + (forms.format == "oslat" ? "' is of busy" : "' is none of text, json, csv, oslat"));
}

Status Write(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return Annotate(WriteAll(fd.get(), text.data(), text.size()), path);
}

StatusOr<int> Print(const Forms& forms, const Document& document) {
  if (forms.format.empty() || forms.format == "text") std::fputs(ResultText(document, forms.max_spikes).c_str(), stdout);
  else if (forms.format == "json") std::fputs(ResultJson(document).c_str(), stdout);
  else if (forms.format == "csv") std::fputs(ResultCsv(document).c_str(), stdout);
  else std::fputs(OslatText(document, forms.buckets, forms.zero_omit).c_str(), stdout);
  if (!forms.save.empty()) RETURN_IF_ERROR(Write(forms.save, ResultJson(document)));
  if (!forms.folded.empty()) RETURN_IF_ERROR(Write(forms.folded, FoldedDiff(document.path_diff)));
  if (!forms.plot.empty()) RETURN_IF_ERROR(WritePlot(document, forms.plot));
  return static_cast<uint64_t>(std::max<int64_t>(0, Total(document.result).max())) > forms.fail_above_ns ? kConditionMet : kDone;
}

// The words behind the options; --help is printed here (nothing then).
StatusOr<std::optional<std::vector<std::string>>> Parse(const CommandSpec& spec, const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(Parsed parsed, ParseOptions(spec, words));
  if (parsed.help) {
    std::fputs(HelpText(spec).c_str(), stdout);
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(std::vector<std::string> rest, TakeLaterOptions(spec, parsed));
  return rest;
}

Setter AppendIds(std::vector<pid_t>* out) {
  return [out](std::string_view v) -> Status {
    for (std::string_view piece : Split(v, ',')) {
      ASSIGN_OR_RETURN(uint64_t id, ParseUint(piece));
      if (id < 1 || id > INT32_MAX) return InvalidArgument("'" + EscapeForTerminal(piece) + "' is no process");
      out->push_back(static_cast<pid_t>(id));
    }
    return OkStatus();
  };
}

}  // namespace

StatusOr<int> RunLatencyReport(const std::vector<std::string>& words) {
  Forms forms;
  CommandSpec spec{.name = "latency report", .summary = "read a result of brink latency or cyclictest again", .usage = "[options] FILE",
                   .examples = {{"brink latency report run.json", "what --save kept"}, {"brink latency report --plot x.svg cyclictest.txt", "cyclictest's own output, text or JSON"}}};
  AddForms(&forms, &spec.options);
  ASSIGN_OR_RETURN(auto files, Parse(spec, words));
  if (!files) return kDone;
  if (files->size() != 1) return InvalidArgument("give one file: brink latency report FILE");
  ASSIGN_OR_RETURN(std::string text, ReadFile((*files)[0], 1u << 30));
  auto document = latency::ParseAny(text);
  if (!document.ok()) return FailedPrecondition((*files)[0] + ": " + Message(document.status()));
  RETURN_IF_ERROR(CheckForm(forms, document->kind == "busy"));
  return Print(forms, *document);
}

StatusOr<int> RunLatencyWatch(const std::vector<std::string>& words, const std::string& command_line) {
  Forms forms;
  latency::WatchOptions options;
  uint64_t duration = 0, above = 1'000'000, block = 1'000'000;
  CommandSpec spec{
      .name = "latency watch", .summary = "wake-up latency of threads that do their own work", .usage = "-p PID | -t TID | --container NAME | -a",
      .description = "From sched_waking to the switch-in, and waits in a futex; what took longer than the limits is explained.",
      .options = {{.letter = 'p', .name = "pid", .value = Value::kRequired, .meta = "PID", .help = "All threads of these processes.", .set = AppendIds(&options.processes)},
                  {.letter = 't', .name = "tid", .value = Value::kRequired, .meta = "TID", .help = "These threads.", .set = AppendIds(&options.threads)},
                  {.name = "container", .value = Value::kRequired, .meta = "NAME", .help = "The processes of a container: id, name, pod.", .set = StoreString(&options.container)},
                  {.letter = 'a', .name = "all", .help = "Every thread but brink's.", .set = StoreFlag(&options.all)},
                  {.letter = 'D', .name = "duration", .value = Value::kRequired, .meta = "TIME", .help = "End after this; without it with the processes, or by Ctrl-C.", .set = StoreDuration(&duration, 1'000'000'000)},
                  {.name = "above", .value = Value::kRequired, .meta = "US", .help = "Explain wake-ups later than this; 1000 without it.", .set = StoreDuration(&above, 1000)},
                  {.name = "blocked-above", .value = Value::kRequired, .meta = "US", .help = "Explain waits in a futex longer than this; 1000 without it, 0 none.", .set = StoreDuration(&block, 1000)}},
      .examples = {{"brink latency watch -p $(pidof nginx) -D 60", "who kept nginx waiting"}, {"brink latency watch -a --above 5000 -D 10", "every late thread of the machine"}}};
  AddForms(&forms, &spec.options);
  ASSIGN_OR_RETURN(auto rest, Parse(spec, words));
  if (!rest) return kDone;
  if (!rest->empty()) return InvalidArgument("'" + EscapeForTerminal((*rest)[0]) + "' is no option");
  RETURN_IF_ERROR(CheckForm(forms, false));
  options.duration_ns = static_cast<int64_t>(duration);
  options.limit_ns = static_cast<int64_t>(above);
  options.block_limit_ns = static_cast<int64_t>(block);
  options.command_line = command_line;
  ASSIGN_OR_RETURN(Document document, latency::RunWatch(options));
  return Print(forms, document);
}

StatusOr<int> RunLatencyBusy(const std::vector<std::string>& words, const std::string& command_line) {
  Forms forms;
  latency::BusyOptions options;
  latency::TraceRequest trace_request{.marks = true};
  uint64_t duration = 60'000'000'000, gap = 1000, priority = 0, above = 100'000, stop_above = 0, copied = 4096;
  bool copies = false;
  CommandSpec spec{
      .name = "latency busy", .summary = "time stolen from a busy loop on each CPU", .usage = "[options]",
      .description = "A thread a CPU reads the clock without pause; each gap is time that something took: an interrupt, another task,\nthe hypervisor, firmware. Ctrl-C ends it.",
      .options = {{.letter = 'C', .name = "cpus", .value = Value::kRequired, .meta = "CPUS", .help = "CPUs to keep busy; all allowed ones without it.", .set = StoreString(&options.cpus)},
                  {.letter = 'D', .name = "duration", .value = Value::kRequired, .meta = "TIME", .help = "60 s without it.", .set = StoreDuration(&duration, 1'000'000'000)},
                  {.letter = 'f', .name = "rtprio", .value = Value::kRequired, .meta = "PRIO", .help = "SCHED_FIFO priority. A CPU kept busy by it is lost to everything below.", .set = StoreUint(&priority, 1, 99)},
                  {.name = "gap", .value = Value::kRequired, .meta = "TIME", .help = "Shortest gap that counts (a bare number is us); 1 us without it.", .set = StoreDuration(&gap, 1000)},
                  {.letter = 'w', .name = "workload", .value = Value::kRequired, .meta = "NAME", .help = "What the loop does between two looks at the clock: no, or memmove.", .set = [&](std::string_view v) -> Status {
                     if (v != "no" && v != "memmove") return InvalidArgument("'" + EscapeForTerminal(v) + "' is neither no nor memmove");
                     copies = v == "memmove";
                     return OkStatus();
                   }},
                  {.letter = 'm', .name = "workload-mem", .value = Value::kRequired, .meta = "SIZE", .help = "Bytes that memmove copies each time; 4K without it.", .set = StoreSize(&copied)},
                  {.letter = 'B', .name = "bias", .help = "Take the least time of a turn (the work's) off each.", .set = StoreFlag(&options.bias)},
                  {.letter = 'T', .name = "trace-threshold", .value = Value::kRequired, .meta = "US", .help = "End at the first gap above US; with tracefs, mark and stop a trace of its own then and keep it.", .set = StoreDuration(&stop_above, 1000)},
                  {.name = "trace-file", .value = Value::kRequired, .meta = "FILE", .help = "Where that trace goes; brink-latency.trace without it.", .set = StoreString(&trace_request.file)},
                  {.name = "trace-top", .help = "-T marks and stops the top-level trace, which you have started, and no private one.", .set = StoreFlag(&trace_request.own_trace, false)},
                  {.name = "blame", .value = Value::kOptional, .meta = "US", .help = "Explain gaps longer than US (100 without it).", .set = [&](std::string_view v) -> Status {
                     options.blame = true;
                     if (v.empty()) return OkStatus();
                     ASSIGN_OR_RETURN(above, ParseDurationNs(v, 1000));
                     return OkStatus();
                   }}},
      .examples = {{"brink latency busy -C 1 -D 10 --blame", "who takes time from CPU 1"}}};
  AddForms(&forms, &spec.options);
  ASSIGN_OR_RETURN(auto rest, Parse(spec, words));
  if (!rest) return kDone;
  if (!rest->empty()) return InvalidArgument("'" + EscapeForTerminal((*rest)[0]) + "' is no option");
  RETURN_IF_ERROR(CheckForm(forms, true));
  options.duration_ns = static_cast<int64_t>(duration);
  options.gap_ns = static_cast<int64_t>(gap);
  options.priority = static_cast<int>(priority);
  options.limit_ns = static_cast<int64_t>(above);
  options.command_line = command_line;
  options.copied = copies ? copied : 0;
  options.stop_above_ns = static_cast<int64_t>(stop_above);
  std::unique_ptr<latency::Trace> trace;
  if (stop_above) {
    auto started = latency::Trace::Start(trace_request, TracefsRoot());
    if (started.ok()) trace = std::move(*started);
    else std::fprintf(stderr, "WARN: no trace: %s\n", Message(started.status()).c_str());
    options.break_hook = trace.get();
  }
  ASSIGN_OR_RETURN(Document document, latency::RunBusy(options));
  if (trace && trace->hit() && trace_request.own_trace) {
    RETURN_IF_ERROR(trace->Save());
    std::fprintf(stderr, "the trace up to the gap is in %s\n", trace_request.file.c_str());
  }
  return Print(forms, document);
}

}  // namespace brink::cli
