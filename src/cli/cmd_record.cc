#include <fcntl.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/record_aggregate.h"
#include "cli/record_options.h"
#include "kernel/privileges.h"
#include "session/report.h"

namespace brink::cli {
namespace {

class RecordCommand : public Command {
 public:
  const CommandSpec& spec() const override { return options_.command; }

  StatusOr<int> Run(const Parsed& parsed) override {
    const bool with_command = !parsed.rest.empty();
    auto request = MakeRecordRequest(options_, parsed.rest);
    if (!request.ok()) return FailedBefore(request.status(), with_command);
    if (Status rights = RequireRecordingRights(CapSet::ReadEffective()); !rights.ok()) return FailedBefore(rights, with_command);
    request->spec.session.keep_capabilities = RecordingCapabilities();
    // A CPU may come while it records.
    if (PerfNeedsSysAdmin()) request->spec.session.keep_capabilities->push_back(CAP_SYS_ADMIN);
    // Files that come later (rotation, the report) may lie in a folder of another user.
    if (request->spec.file.rotating || !options_.json_path.empty()) request->spec.session.keep_capabilities->push_back(CAP_DAC_OVERRIDE);
    if (!options_.quiet && isatty(STDERR_FILENO)) request->spec.progress = ShowProgress;
    auto result = options_.aggregate ? RecordAggregate(request->spec, std::move(request->source), AggregateOptions()) : Record(request->spec, std::move(request->source));
    if (!result.ok()) return FailedBefore(result.status(), with_command);
    if (request->spec.progress) std::fputs("\r\033[K", stderr);
    result->notes.insert(result->notes.begin(), request->notes.begin(), request->notes.end());
    RETURN_IF_ERROR(Say(*result));
    return ExitStatusOf(*result, with_command);
  }

 private:
  report::CollectOptions AggregateOptions() const {
    return {.path = options_.output_given ? options_.output : "brink.agg", .by_container = options_.aggregate_by == "container", .slice_ns = options_.aggregate_slice_ns,
            .max_rows = options_.aggregate_rows};
  }

  // With a command the status must not look like the command's.
  StatusOr<int> FailedBefore(const Status& status, bool with_command) {
    if (!with_command || status.code() == absl::StatusCode::kInvalidArgument) return status;
    std::fprintf(stderr, "brink record: %s\n", Message(status).c_str());
    return kBrinkFailed;
  }

  static void ShowProgress(const Session& session, const FileConsumer& file) {
    Books books = session.books();
    std::string lost = books.samples_lost().records ? absl::StrFormat(", %d lost", books.samples_lost().records) : "";
    std::fprintf(stderr, "\r\033[K%s", absl::StrFormat("recording: %d samples%s, %s ", books.written.records, lost, FormatSize(file.bytes())).c_str());
  }

  Status Say(const RecordResult& result) {
    if (!result.exec_error.empty()) std::fprintf(stderr, "brink record: %s\n", result.exec_error.c_str());
    if (!result.consumer.ok()) std::fprintf(stderr, "brink record: %s\n", Message(result.consumer).c_str());
    if (options_.json) {
      std::string text = ReportJson(result) + "\n";
      if (options_.json_path.empty()) {
        if (options_.output != "-") std::fputs(text.c_str(), stdout);
      } else {
        ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(options_.json_path, O_WRONLY | O_CREAT | O_TRUNC));
        RETURN_IF_ERROR(WriteAll(fd.get(), text.data(), text.size()));
      }
    }
    if (!options_.quiet) std::fputs(ReportText(result, {.pipe = options_.output == "-", .aggregate = options_.aggregate}).c_str(), stderr);
    return OkStatus();
  }

  int ExitStatusOf(const RecordResult& result, bool with_command) {
    if (!result.consumer.ok()) return with_command ? kBrinkFailed : kFailed;
    bool command_decides = result.reason == EndReason::kCommandEnded;
    if (command_decides && result.command_status) return *result.command_status;
    uint64_t count = result.books.samples_lost().records;
    // Thinned out by our own default, which nobody asked to be told of by the status.
    if (options_.walk_share_percent < 0) count -= result.books.of(LossCause::kThrottled).records;
    const double lost = static_cast<double>(count);
    if (lost > 0 && lost * 100 > options_.max_loss_percent * static_cast<double>(result.books.sent())) return kIncomplete;
    return kDone;
  }

  RecordOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeRecord() { return std::make_unique<RecordCommand>(); }

}  // namespace brink::cli
