// brink ctl: the agent's client.
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "agent/client.h"
#include "base/ascii_json.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"

namespace brink::cli {
namespace {

using agent::JobKind;
using agent::Request;
using agent::Verb;
using nlohmann::ordered_json;

std::string Number(const ordered_json& json, const char* name) { return std::to_string(json.value(name, uint64_t{0})); }

std::string StatusText(const ordered_json& status) {
  const ordered_json& budget = status["budget"];
  std::string out = absl::StrFormat("%s, pid %d, up %s, clients %d\n", status.value("version", ""), status.value("pid", 0), FormatDuration(status.value("uptime_ns", uint64_t{0})), status.value("clients", 0));
  out += absl::StrFormat("budget: CPU %.2f of %.4g %%%s, %s of %s written, at most %d captures a second (%d refused)\n", budget.value("cpu_percent", 0.0), budget.value("max_cpu_percent", 0.0),
                         budget.value("paused", false) ? " (paused)" : "", FormatSize(budget.value("bytes", uint64_t{0})), FormatSize(budget.value("max_bytes", uint64_t{0})),
                         budget.value("max_rate", uint64_t{0}), budget.value("over_rate", uint64_t{0}));
  if (const ordered_json& flight = status["flight"]; flight.is_object()) {
    out += absl::StrFormat("flight recorder: %s, %d samples over %s of %s, %s; %d dumps, %d samples lost\n", flight.value("source", ""), flight.value("samples", uint64_t{0}),
                           FormatDuration(flight.value("span_ns", uint64_t{0})), FormatDuration(flight.value("window_ns", uint64_t{0})), FormatSize(flight.value("bytes", uint64_t{0})),
                           flight.value("dumps", uint64_t{0}), flight.value("lost", uint64_t{0}));
  } else {
    out += "flight recorder: none " + status.value("flight_error", "") + "\n";
  }
  for (const ordered_json& job : status["jobs"]) {
    out += absl::StrFormat("job %-3d %-7s %-8s %s: %s captures, %s, for %s; brink %s %s\n", job.value("job", uint64_t{0}), job.value("kind", ""), job.value("state", ""), job.value("client", ""),
                           Number(job, "captures"), FormatSize(job.value("bytes", uint64_t{0})), FormatDuration(job.value("age_ns", uint64_t{0})), job.value("kind", ""), job.value("options", ""));
    if (job["ended"].is_string()) out += "        ended: " + job.value("ended", "") + "\n";
  }
  return out;
}

// Lines that hold names from anywhere.
std::string Harmless(std::string_view text) {
  std::string out;
  for (std::string_view line : Split(text, '\n')) out += EscapeForTerminal(line) + "\n";
  out.pop_back();
  return out;
}

class CtlCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(Request request, MakeRequest(parsed.rest));
    ASSIGN_OR_RETURN(auto client, agent::CtlClient::Connect(socket_));
    if (request.verb == Verb::kSnap) return Stream(*client, std::move(request));
    const Verb verb = request.verb;
    ASSIGN_OR_RETURN(ordered_json result, client->Ask(std::move(request)));
    Print(json_ ? AsciiJson(result) + "\n" : Harmless(Text(verb, result)));
    return kDone;
  }

 private:
  StatusOr<Request> MakeRequest(const std::vector<std::string>& words) {
    if (words.empty()) return InvalidArgument("say what: status, start, stop, snap, dump or fire");
    Request request;
    const std::string& verb = words[0];
    std::vector<std::string> rest(words.begin() + 1, words.end());
    if (verb == "start") {
      request.verb = Verb::kStart;
      if (rest.empty() || (rest[0] != "record" && rest[0] != "snap")) return InvalidArgument("brink ctl start record|snap OPTIONS...");
      request.kind = rest[0] == "record" ? JobKind::kRecord : JobKind::kSnap;
      request.options.assign(rest.begin() + 1, rest.end());
      request.name = name_;
      request.dump = dump_;
    } else if (verb == "snap") {
      request.verb = Verb::kSnap;
      request.options = rest;
      request.text = !json_;
      request.colour = !json_ && isatty(STDOUT_FILENO);
    } else if (verb == "stop" || verb == "fire") {
      request.verb = verb == "stop" ? Verb::kStop : Verb::kFire;
      auto job = rest.size() == 1 ? ParseUint(rest[0]) : StatusOr<uint64_t>(InvalidArgument(""));
      if (!job.ok()) return InvalidArgument("brink ctl " + verb + " JOB; brink ctl status lists them");
      request.job = *job;
    } else if (verb == "status" || verb == "dump") {
      request.verb = verb == "status" ? Verb::kStatus : Verb::kDump;
      if (!rest.empty()) return InvalidArgument("brink ctl " + verb + " takes no words");
      if (request.verb == Verb::kDump) request.name = name_;
    } else {
      std::string near;
      for (const std::string& word : NearestNames(verb, std::vector<std::string>{"status", "start", "stop", "snap", "dump", "fire"})) near += (near.empty() ? "; nearest: " : ", ") + word;
      return InvalidArgument("unknown word '" + EscapeForTerminal(verb) + "'" + near);
    }
    return request;
  }

  static void Print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  static std::string Text(Verb verb, const ordered_json& result) {
    std::string file = result.contains("file") && result["file"].is_string() ? result["file"].get<std::string>() : "";
    switch (verb) {
      case Verb::kStatus: return StatusText(result);
      case Verb::kStart: return "job " + Number(result, "job") + (file.empty() ? "" : ": " + file) + "\n";
      case Verb::kStop: return "job " + Number(result, "job") + " ended: " + result.value("reason", "") + (file.empty() ? "" : "; " + file) + "\n";
      case Verb::kDump: return file + ": " + Number(result, "samples") + " samples; next: brink report -i " + file + "\n";
      default: return "job " + Number(result, "job") + "\n";
    }
  }

  // Ctrl-C ends the job in order; what it says at its end is still printed.
  StatusOr<int> Stream(agent::CtlClient& client, Request request) {
    RunSignals signals({SIGINT, SIGTERM, SIGHUP});
    RETURN_IF_ERROR(signals.status());
    ASSIGN_OR_RETURN(ordered_json started, client.Ask(std::move(request)));
    const uint64_t job = started.value("job", uint64_t{0});
    for (const ordered_json& note : started.value("notes", ordered_json::array())) std::fprintf(stderr, "brink ctl: %s\n", EscapeForTerminal(note.get<std::string>()).c_str());
    std::fprintf(stderr, "brink ctl: armed as job %llu, Ctrl-C ends\n", static_cast<unsigned long long>(job));
    int interrupt = signals.fd();
    while (true) {
      ASSIGN_OR_RETURN(ordered_json event, client.NextEvent(interrupt));
      if (event.is_null()) {
        (void)signals.Next();
        interrupt = -1;
        RETURN_IF_ERROR(client.Tell({.verb = Verb::kStop, .options = {}, .name = {}, .job = job}));
        continue;
      }
      if (event.value("event", "") == "capture") {
        Print(event.contains("text") ? event.value("text", "") : AsciiJson(event["capture"]) + "\n");
      } else if (event.value("event", "") == "end") {
        const ordered_json& result = event["result"];
        const uint64_t dropped = result.value("dropped", uint64_t{0});
        std::fprintf(stderr, "brink ctl: %s%s\n", EscapeForTerminal(result.value("reason", "")).c_str(), dropped ? absl::StrFormat(", %d captures dropped", dropped).c_str() : "");
        const ordered_json summary = result.value("summary", ordered_json());
        if (summary.is_null()) return kFailed;
        return dropped || summary.value("lost", uint64_t{0}) || summary.value("over_rate", uint64_t{0}) ? kIncomplete : kDone;
      }
    }
  }

  std::string socket_ = agent::kDefaultSocket, name_;
  bool json_ = false, dump_ = false;
  CommandSpec spec_{
      .name = "ctl",
      .summary = "ask the resident agent",
      .usage = "[options] status | start record|snap OPTIONS... | stop JOB | snap OPTIONS... | dump | fire JOB",
      .description =
          "status shows budgets, flight recorder and jobs. start begins a recording (options of brink record) or a snap run\n"
          "(options of brink snap) that writes into the agent's folder and goes on without this client; stop ends it. snap\n"
          "streams captures here and ends with this client. dump writes what the flight recorder holds. fire makes the manual\n"
          "triggers of a job capture now. Paths in options are absolute.",
      .options = {{.name = "socket", .value = Value::kRequired, .meta = "PATH", .group = "Options", .help = "the agent's socket; default /run/brink/agent.sock", .set = StoreString(&socket_)},
                  {.name = "name", .value = Value::kRequired, .meta = "FILE", .group = "Options", .help = "name of the file in the agent's folder (start, dump)", .set = StoreString(&name_)},
                  {.name = "dump", .group = "Options", .help = "start snap: each capture makes the flight recorder write its file", .set = StoreFlag(&dump_)},
                  {.name = "json", .group = "Options", .help = "answers and captures as JSON lines", .set = StoreFlag(&json_)}},
      .examples = {{"brink ctl status", "what runs, and what it uses"},
                   {"brink ctl start record -F 99 -p 1234", "a recording that goes on without this client"},
                   {"brink ctl stop 3", "its orderly end"},
                   {"brink ctl snap --on signal:SEGV", "crashes, here, until Ctrl-C"},
                   {"brink ctl dump", "the last seconds of every CPU"},
                   {"brink ctl --dump start snap --on oom", "the same at each out-of-memory kill"}}};
};

}  // namespace

std::unique_ptr<Command> MakeCtl() { return std::make_unique<CtlCommand>(); }

}  // namespace brink::cli
