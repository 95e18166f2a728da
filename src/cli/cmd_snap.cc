// brink snap: a branch stack, a call chain and the context exactly when something happens.
#include <unistd.h>

#include <cstdio>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/snap_options.h"
#include "filter/parser.h"
#include "kernel/privileges.h"
#include "snap/errno_path.h"
#include "snap/run.h"
#include "snap/trigger.h"

namespace brink::cli {
namespace {

class SnapCommand : public Command {
 public:
  const CommandSpec& spec() const override { return options_.command; }

  StatusOr<int> Run(const Parsed& parsed) override {
    RETURN_IF_ERROR(RequireRecordingRights(CapSet::ReadEffective()));
    if (!options_.trace_between.empty()) return Trace(parsed);
    snap::RunRequest request;
    RETURN_IF_ERROR(options_.Fill(parsed.rest, &request));
    snap::PrintOptions print = options_.Print();
    print.colour = options_.colour == "always" || (options_.colour == "auto" && isatty(STDOUT_FILENO));
    FILE* out = request.output == "-" ? stderr : stdout;
    snap::ErrnoPaths paths;
    const bool tree = !options_.errno_path.empty() && !options_.json;
    request.print = [&, out](const snap::Capture& capture) -> Status {
      std::string text;
      if (tree) {
        auto path = paths.Add(capture);
        if (path) text = snap::ErrnoPathText(*path, print);
      } else {
        text = options_.json ? snap::CaptureJson(capture, print) + "\n" : snap::CaptureText(capture, print);
      }
      if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) return Unavailable("the output is closed");
      return OkStatus();
    };
    request.armed = [&](const std::vector<std::string>& notes) { SayArmed(notes); };
    auto result = snap::Run(std::move(request));
    if (!result.ok()) return Failed(result.status(), !parsed.rest.empty());
    if (paths.overruled() && !options_.quiet) std::fprintf(stderr, "%llu errors of functions did not become the call's\n", static_cast<unsigned long long>(paths.overruled()));
    return Say(*result);
  }

 private:
  StatusOr<int> Trace(const Parsed& parsed) {
    snap::TraceRequest request;
    RETURN_IF_ERROR(options_.FillTrace(parsed.rest, &request));
    snap::PrintOptions print = options_.Print();
    print.colour = options_.colour == "always" || (options_.colour == "auto" && isatty(STDOUT_FILENO));
    request.print = [&](const snap::Trace& trace) -> Status {
      const std::string text = options_.json ? snap::TraceJson(trace, print) + "\n" : snap::TraceText(trace, print);
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? OkStatus() : Unavailable("the output is closed");
    };
    request.armed = [&](const std::vector<std::string>& notes) { SayArmed(notes); };
    auto result = snap::TraceBetween(std::move(request));
    if (!result.ok()) return Failed(result.status(), !parsed.rest.empty());
    if (!result->exec_error.empty()) std::fprintf(stderr, "brink snap: %s\n", result->exec_error.c_str());
    const uint64_t lost = result->books.samples_lost().records;
    if (!options_.quiet) {
      for (const StatLine& line : result->stats) {
        if (!line.text.empty()) std::fprintf(stderr, "%s\n", EscapeForTerminal(line.text).c_str());
      }
      std::fprintf(stderr, "%s\n", absl::StrFormat("spans %d: %d whole, %d without a branch; lost %d", result->spans, result->whole, result->empty, lost).c_str());
    }
    RETURN_IF_ERROR(result->consumer);
    if (result->command_status) return *result->command_status;
    return lost ? kIncomplete : kDone;
  }

  void SayArmed(const std::vector<std::string>& notes) {
    if (options_.quiet) return;
    for (const std::string& note : notes) std::fprintf(stderr, "brink snap: %s\n", EscapeForTerminal(note).c_str());
    std::fprintf(stderr, "brink snap: armed, Ctrl-C ends\n");
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
    if (!options_.quiet) {
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

  SnapOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeSnap() { return std::make_unique<SnapCommand>(); }

}  // namespace brink::cli
