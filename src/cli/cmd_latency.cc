// brink latency: measures wake-up latency as cyclictest does, and says where the time went.
#include <cstdio>
#include <fcntl.h>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/latency_options.h"
#include "cli/latency_verbs.h"
#include "kernel/tracefs.h"
#include "latency/actions.h"
#include "latency/blame_session.h"
#include "latency/cyclic_json.h"
#include "latency/cyclic_text.h"
#include "latency/outputs.h"
#include "latency/runner.h"

namespace brink::cli {
namespace {

using latency::Config;
using latency::Document;
using latency::Format;

// The words this process was started with, for the JSON's sake.
std::string OwnCommandLine() {
  auto text = ReadFile("/proc/self/cmdline");
  if (!text.ok()) return "";
  while (!text->empty() && text->back() == '\0') text->pop_back();
  for (char& c : *text) {
    if (c == '\0') c = ' ';
  }
  return *text;
}

Status WriteFile(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return Annotate(WriteAll(fd.get(), text.data(), text.size()), path);
}

class LatencyCommand : public Command {
 public:
  LatencyCommand() { AddLatencyOptions(&request_, &outputs_, &spec_.options); }
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) {
      const std::string& verb = parsed.rest[0];
      if (verb == "report") return RunLatencyReport(parsed.rest);
      if (verb == "watch") return RunLatencyWatch(parsed.rest, OwnCommandLine());
      if (verb == "busy") return RunLatencyBusy(parsed.rest, OwnCommandLine());
      return InvalidArgument("'" + EscapeForTerminal(verb) + "' is neither an option nor watch, busy or report (see brink latency --help)");
    }
    ASSIGN_OR_RETURN(Config config, latency::Resolve(request_, latency::Machine::Read()));
    latency::RunHooks hooks;
    Document document;
    std::unique_ptr<latency::BlameSession> blame;
    std::string no_blame;
    if (outputs_.blame) {
      auto started = StartBlame(config, &hooks);
      // Without rights the numbers are still worth having; what was to happen at a limit is not.
      bool goes_on = absl::IsPermissionDenied(started.status()) && outputs_.on_threshold.empty() && config.format != Format::kCyclictest;
      if (!started.ok() && !goes_on) return started.status();
      if (started.ok()) blame = std::move(*started);
      else no_blame = Message(started.status()) + "; measured without reasons";
      if (!no_blame.empty()) std::fprintf(stderr, "WARN: %s\n", no_blame.c_str());
    }
    std::unique_ptr<latency::Trace> trace;
    if (actions_.wants_trace()) outputs_.trace.marks = true;
    if (outputs_.trace.any()) {
      if (!config.break_value && outputs_.on_threshold.empty()) return InvalidArgument("tracing options need a limit at which the trace stops: -b US");
      ASSIGN_OR_RETURN(trace, latency::Trace::Start(outputs_.trace, TracefsRoot()));
      hooks.break_hook = trace.get();
      actions_.trace = [raw = trace.get(), limit_us = outputs_.blame_above_ns / 1000](const latency::SpikeReport& spike) { raw->Hit(spike.tid, spike.lateness_ns / 1000, limit_us); };
    }
    ASSIGN_OR_RETURN(document.result, latency::RunMeasurement(config, hooks, OwnCommandLine()));
    if (blame) {
      document.spikes = blame->TakeReports();
      document.tail_paths = FoldPaths(document.spikes);
      document.path_diff = DiffPaths(document.spikes, blame->normal_paths());
      for (std::string& notice : blame->Notices()) document.result.notices.push_back(std::move(notice));
    }
    if (!no_blame.empty()) document.result.notices.push_back(no_blame);
    RETURN_IF_ERROR(Write(config, document));
    if (trace && trace->hit() && outputs_.trace.own_trace) {
      RETURN_IF_ERROR(trace->Save());
      std::fprintf(stderr, "the trace up to the limit is in %s\n", outputs_.trace.file.c_str());
    }
    return StatusOf(config, document);
  }

 private:
  StatusOr<std::unique_ptr<latency::BlameSession>> StartBlame(const Config& config, latency::RunHooks* hooks) {
    ASSIGN_OR_RETURN(actions_, latency::ThresholdActions::Parse(outputs_.on_threshold));
    latency::BlameOptions options;
    options.limit_ns = outputs_.blame_above_ns;
    options.beat_ns = static_cast<int64_t>(outputs_.heartbeat_ns);
    options.on_spike = [this](const latency::SpikeReport& spike) { actions_.Run(spike); };
    ASSIGN_OR_RETURN(auto blame, latency::BlameSession::Start(options));
    latency::BlameSession* session = blame.get();
    hooks->observer = [session, policy = config.policy](const latency::ThreadConfig& thread) { return session->Observe(thread, policy); };
    hooks->tick = [session, this](bool) {
      session->Tick();
      return !actions_.stop();
    };
    return blame;
  }

  Status Write(const Config& config, const Document& document) {
    bool cyclic = config.format == Format::kCyclictest;
    std::string text;
    switch (config.format) {
      case Format::kCyclictest: text = FinalText(document.result, config, outputs_.old_histogram); break;
      case Format::kJson: text = ResultJson(document); break;
      case Format::kCsv: text = ResultCsv(document); break;
      case Format::kText:
        text = ResultText(document, static_cast<size_t>(std::max<int64_t>(outputs_.max_spikes, 0)));
        if (config.histogram && config.histfile.empty()) text += HistogramText(document.result, config.histogram, config.histogram_all, outputs_.old_histogram);
        if (config.spike) text += SpikeText(document.result);
        break;
    }
    // The last live frame has shown what the status lines would repeat.
    if (cyclic && !config.quiet && !config.histogram) text = WithoutStatus(document, config);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (config.histogram && !config.histfile.empty()) {
      RETURN_IF_ERROR(WriteFile(config.histfile, HistogramText(document.result, config.histogram, config.histogram_all, outputs_.old_histogram)));
    }
    if (!config.json.empty()) RETURN_IF_ERROR(WriteFile(config.json, CyclicJson(document.result, config, 0)));
    if (!outputs_.save.empty()) RETURN_IF_ERROR(WriteFile(outputs_.save, ResultJson(document)));
    if (!outputs_.folded.empty()) RETURN_IF_ERROR(WriteFile(outputs_.folded, FoldedDiff(document.path_diff)));
    if (!outputs_.plot.empty()) RETURN_IF_ERROR(WritePlot(document, outputs_.plot));
    return OkStatus();
  }

  static std::string WithoutStatus(const Document& document, const Config& config) {
    std::string text = config.spike ? SpikeText(document.result) : "";
    return text + (config.break_value ? BreakText(document.result) : "");
  }

  static int StatusOf(const Config& config, const Document& document) {
    if (!config.fail_above_ns) return kDone;
    return Total(document.result).max() > *config.fail_above_ns ? kConditionMet : kDone;
  }

  latency::ThresholdActions actions_;
  latency::Request request_;
  LatencyOutputs outputs_;
  CommandSpec spec_{
      .name = "latency",
      .summary = "measure wake-up latency as cyclictest does, with the reason for each spike",
      .usage = "[options] | watch ... | busy ... | report FILE",
      .description =
          "Threads sleep until a deadline and compare it with the clock when they run again. All options of cyclictest\n"
          "have their letters and meanings (-h is the histogram; --help this text); run through a link named cyclictest,\n"
          "or with --format cyclictest, its text too. `brink latency watch`, `busy` and `report` have their own --help.",
      .examples = {{"brink latency -S -p 80 -m -D 10", "every CPU at SCHED_FIFO 80 for ten seconds"},
                   {"brink latency -S -p 80 -m -D 60 --save run.json --plot run.svg", "keep the result, draw it"},
                   {"brink latency -a 1 -p 80 -m -D 60 --fail-above 200", "status 4 when a wake-up was later than 200 us"},
                   {"ln -s $(command -v brink) /usr/local/bin/cyclictest", "cyclictest in cyclictest's clothes"}}};
};

}  // namespace

std::unique_ptr<Command> MakeLatency() { return std::make_unique<LatencyCommand>(); }

}  // namespace brink::cli
