#include "cli/agent_work.h"

#include "base/strings.h"
#include "cli/record_options.h"
#include "cli/snap_options.h"

namespace brink::cli {
namespace {

// A job runs no command (the agent's rights are not the client's to run things with), writes where the agent says, and
// says what it has to say in answers.
Status Check(const Parsed& parsed, const char* command) {
  if (parsed.help) return InvalidArgument(std::string("options are those of brink ") + command + " --help");
  if (!parsed.rest.empty()) return InvalidArgument("the agent runs no commands: '" + EscapeForTerminal(parsed.rest[0]) + "'; use brink " + command + " -- COMMAND, or -p PID");
  return OkStatus();
}

StatusOr<Parsed> Parse(const CommandSpec& spec, const std::vector<std::string>& words) {
  std::vector<std::string> argv = {spec.name};
  argv.insert(argv.end(), words.begin(), words.end());
  ASSIGN_OR_RETURN(Parsed parsed, ParseOptions(spec, argv));
  RETURN_IF_ERROR(Check(parsed, spec.name));
  return parsed;
}

Status Refuse(bool given, const char* option) { return given ? InvalidArgument(std::string(option) + " is not for the agent: it names its files itself") : OkStatus(); }

StatusOr<std::function<StatusOr<agent::Recording>()>> MakeRecording(const std::vector<std::string>& words) {
  auto options = std::make_shared<RecordOptions>();
  RETURN_IF_ERROR(Parse(options->command, words).status());
  RETURN_IF_ERROR(Refuse(options->output_given, "-o"));
  RETURN_IF_ERROR(Refuse(!options->json_path.empty(), "--json=FILE"));
  RETURN_IF_ERROR(Refuse(!options->rotate.empty(), "--rotate"));
  RETURN_IF_ERROR(Refuse(options->aggregate, "--aggregate"));
  if (options->source == "hop" || options->source == "step") return InvalidArgument("--source " + options->source + " stops threads from a helper process; the agent has none. Use brink record");
  if (options->replay_count || !options->replay_file.empty()) return InvalidArgument("replaying is not for the agent");
  return [options]() -> StatusOr<agent::Recording> {
    ASSIGN_OR_RETURN(RecordRequest request, MakeRecordRequest(*options, {}));
    return agent::Recording{.spec = std::move(request.spec), .source = std::move(request.source), .notes = std::move(request.notes)};
  };
}

StatusOr<std::function<StatusOr<agent::Snapping>()>> MakeSnapping(const std::vector<std::string>& words) {
  auto options = std::make_shared<SnapOptions>();
  RETURN_IF_ERROR(Parse(options->command, words).status());
  RETURN_IF_ERROR(Refuse(!options->output.empty(), "-o"));
  snap::RunRequest checked;
  RETURN_IF_ERROR(options->Fill({}, &checked));
  if (!options->trace_between.empty()) return InvalidArgument("--trace-between is not for the agent: brink snap takes it");
  if (options->triggers.empty() && options->errno_path.empty()) return InvalidArgument("say when: --on TRIGGER");
  return [options]() -> StatusOr<agent::Snapping> {
    agent::Snapping work;
    RETURN_IF_ERROR(options->Fill({}, &work.request));
    work.print = options->Print();
    return work;
  };
}

}  // namespace

agent::Factories AgentFactories() { return {.recording = MakeRecording, .snapping = MakeSnapping}; }

}  // namespace brink::cli
