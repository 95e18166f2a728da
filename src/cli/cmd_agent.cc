// brink agent: the resident collector.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "agent/protocol.h"
#include "agent/server.h"
#include "base/strings.h"
#include "cli/agent_work.h"
#include "cli/commands.h"
#include "cli/version.h"
#include "kernel/privileges.h"

namespace brink::cli {
namespace {

class AgentCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) return InvalidArgument("brink agent runs no command; brink record -- COMMAND does");
    RETURN_IF_ERROR(RequireRecordingRights(CapSet::ReadEffective()));
    agent::AgentOptions options;
    options.socket = socket_;
    // systemd makes the folder and says where.
    const char* state = std::getenv("STATE_DIRECTORY");
    options.dir = !dir_.empty() ? dir_ : state && *state ? state : "/var/lib/brink";
    options.metrics = metrics_;
    options.budgets = {.max_rate = max_rate_, .max_cpu_percent = max_cpu_, .max_bytes = max_bytes_, .max_jobs = static_cast<uint32_t>(max_jobs_), .max_clients = static_cast<uint32_t>(max_clients_)};
    options.flight = {.window_ns = window_ns_, .bytes = window_bytes_};
    if (window_ns_) {
      options.flight_options = {"-a", "-g", "-F", std::to_string(window_rate_), "--source", window_source_};
      if (window_source_ != "none") options.flight_options.insert(options.flight_options.end(), {"--depth", "32"});
    }
    for (const std::string& trigger : dump_on_) options.dump_on.push_back({"--on", trigger, "--limit", "1/s", "--no-chain", "--source", "none"});
    options.version = VersionLine();
    options.factories = AgentFactories();
    options.ready = [&](const std::vector<std::string>& lines) {
      if (quiet_) return;
      for (const std::string& line : lines) std::fprintf(stderr, "brink agent: %s\n", EscapeForTerminal(line).c_str());
      std::fprintf(stderr, "brink agent: ready, Ctrl-C ends\n");
    };
    // Clients' paths are theirs, not relative to where the agent was started.
    if (chdir("/") != 0) return ErrnoError(errno, "chdir /");
    RETURN_IF_ERROR(agent::Serve(std::move(options)));
    return kDone;
  }

 private:
  std::string socket_ = agent::kDefaultSocket, dir_, metrics_, window_source_ = "auto";
  uint64_t max_rate_ = 10'000, max_bytes_ = uint64_t{1} << 30, max_jobs_ = 8, max_clients_ = 32, window_ns_ = 10'000'000'000, window_bytes_ = 64u << 20, window_rate_ = 49;
  double max_cpu_ = 5;
  std::vector<std::string> dump_on_;
  bool quiet_ = false;
  CommandSpec spec_{
      .name = "agent",
      .summary = "stay resident, keep a flight recorder, and serve brink ctl",
      .usage = "[options]",
      .description =
          "Serves requests over a unix socket (brink ctl; JSON lines, see docs/agent.md): start and stop recordings and snap\n"
          "runs, stream captures, and write out the flight recorder, which holds the last seconds of stacks of each CPU in\n"
          "memory. Root and the agent's own user are served. Everything is held to the budgets below. SIGUSR1 writes the\n"
          "flight recorder's file. The end of the agent, however it comes, leaves nothing attached.",
      .options =
          {{.name = "socket", .value = Value::kRequired, .meta = "PATH", .group = "Where", .help = "unix socket; default /run/brink/agent.sock", .set = StoreString(&socket_)},
           {.name = "dir", .value = Value::kRequired, .meta = "DIR", .group = "Where", .help = "files are written here; default $STATE_DIRECTORY or /var/lib/brink", .set = StoreString(&dir_)},
           {.name = "metrics", .value = Value::kRequired, .meta = "[ADDR:]PORT", .group = "Where", .help = "serve Prometheus metrics at /metrics; on the loopback unless ADDR says otherwise", .set = StoreString(&metrics_)},
           {.name = "window", .value = Value::kRequired, .meta = "TIME", .group = "Flight recorder", .help = "how far back it reaches; default 10s, 0 for none", .set = StoreDuration(&window_ns_, 1'000'000'000)},
           {.name = "window-bytes", .value = Value::kRequired, .meta = "SIZE", .group = "Flight recorder", .help = "memory for its samples; default 64M", .set = StoreSize(&window_bytes_)},
           {.name = "window-rate", .value = Value::kRequired, .meta = "HZ", .group = "Flight recorder", .help = "samples a second and CPU; default 49", .set = StoreUint(&window_rate_, 1, 100'000)},
           {.name = "window-source", .value = Value::kRequired, .meta = "SOURCE", .group = "Flight recorder", .help = "auto, lbr, walk or none (call chains only)", .set = StoreString(&window_source_)},
           {.name = "dump-on", .value = Value::kRequired, .meta = "TRIGGER", .group = "Flight recorder", .help = "write its file when this happens (as brink snap --on); several may be given", .set = AppendString(&dump_on_)},
           {.name = "max-rate", .value = Value::kRequired, .meta = "N", .group = "Budgets", .help = "captures a second of all clients together, and samples a second of each recording; default 10000", .set = StoreUint(&max_rate_, 0, UINT32_MAX)},
           {.name = "max-cpu", .value = Value::kRequired, .meta = "PERCENT", .group = "Budgets", .help = "the agent's own CPU time, of one CPU, over ten seconds; above it everything pauses; default 5, 0 for none", .set = [this](std::string_view text) -> Status {
              char* end = nullptr;
              const std::string copy(text);
              max_cpu_ = std::strtod(copy.c_str(), &end);
              return end == copy.c_str() || *end || !(max_cpu_ >= 0) || max_cpu_ > 100'000 ? InvalidArgument("expected a percentage") : OkStatus();
            }},
           {.name = "max-bytes", .value = Value::kRequired, .meta = "SIZE", .group = "Budgets", .help = "files written since the start; default 1G", .set = StoreSize(&max_bytes_)},
           {.name = "max-jobs", .value = Value::kRequired, .meta = "N", .group = "Budgets", .help = "recordings and snap runs at once; default 8", .set = StoreUint(&max_jobs_, 1, 1000)},
           {.name = "max-clients", .value = Value::kRequired, .meta = "N", .group = "Budgets", .help = "connections at once; default 32", .set = StoreUint(&max_clients_, 1, 1000)},
           {.letter = 'q', .name = "quiet", .group = "Where", .help = "say nothing when ready", .set = StoreFlag(&quiet_)}},
      .examples = {{"brink agent", "with a flight recorder of ten seconds"},
                   {"brink agent --dump-on signal:SEGV,ABRT --dump-on oom", "what every CPU did before a crash"},
                   {"brink agent --metrics 9477 --max-cpu 2", "watched by Prometheus, within 2 % of a CPU"},
                   {"systemctl enable --now brink-agent", "as a service"}}};
};

}  // namespace

std::unique_ptr<Command> MakeAgent() { return std::make_unique<AgentCommand>(); }

}  // namespace brink::cli
