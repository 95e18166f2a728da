// The same by hand, and the long sets: prints wrong walks and the table. See Usage.
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <absl/strings/str_format.h>

#include "kernel_walker.h"
#include "ledger.h"
#include "programs.h"
#include "specials.h"
#include "support/process.h"
#include "walk_predictor.h"

namespace brink::fidelity {
namespace {

// Windows between two lines of a ledger.
constexpr uint32_t kPiece = 250;

int Usage() {
  std::fprintf(stderr,
               "usage: fidelity [options] [PROGRAM...] [-- command...]\n"
               "  --mode host|irq|task|auto  who walks: the host build, or the BPF program in one of its modes\n"
               "  --windows N           stops of each program (100)\n"
               "  --seconds N           no more time than that for each program\n"
               "  --depth N             branches (32)\n"
               "  --alone               the other threads stand before the walk is made: nothing may differ\n"
               "  --delay US            else: they run on for so long after the walk, then stand (0)\n"
               "  --ledger FILE         append results to FILE, and do only what it has not yet\n"
               "  --special             programs of an unusual kind in place of foreign ones\n"
               "  --threaded            only programs with threads\n"
               "  --table               print FILE's sums and do nothing\n");
  return 2;
}

struct Arguments {
  std::string mode = "host", ledger;
  Options options{.windows = 100, .seconds = 600};
  double seconds = 1e9;  // of a program
  bool special = false, threaded = false, table = false;
  std::vector<std::string> names, command;

  std::string set() const {
    std::string others = options.alone ? "alone" : absl::StrFormat("delay-%dus", options.delay_us);
    return absl::StrFormat("%s %s depth-%d", mode, others, options.depth);
  }
};

bool Parse(int argc, char** argv, Arguments* out) {
  static const option kOptions[] = {{"mode", 1, nullptr, 'm'},   {"windows", 1, nullptr, 'w'}, {"seconds", 1, nullptr, 'c'}, {"depth", 1, nullptr, 'd'},
                                    {"alone", 0, nullptr, 'a'},  {"delay", 1, nullptr, 'y'},   {"ledger", 1, nullptr, 'l'},
                                    {"special", 0, nullptr, 's'}, {"threaded", 0, nullptr, 'h'}, {"table", 0, nullptr, 't'}, {}};
  char** dashes = std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  if (dashes != argv + argc) out->command.assign(dashes + 1, argv + argc);
  argc = static_cast<int>(dashes - argv);
  for (int letter; (letter = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (letter) {
      case 'm': out->mode = optarg; break;
      case 'w': out->options.windows = static_cast<uint32_t>(std::atoi(optarg)); break;
      case 'c': out->seconds = std::atof(optarg); break;
      case 'd': out->options.depth = static_cast<uint32_t>(std::atoi(optarg)); break;
      case 'a': out->options.alone = true; break;
      case 'y': out->options.delay_us = static_cast<uint64_t>(std::atoll(optarg)); break;
      case 'l': out->ledger = optarg; break;
      case 's': out->special = true; break;
      case 'h': out->threaded = true; break;
      case 't': out->table = true; break;
      default: return false;
    }
  }
  out->names.assign(argv + optind, argv + argc);
  return out->mode == "host" || out->mode == "irq" || out->mode == "task" || out->mode == "auto";
}

Tally JudgeOnce(const Arguments& arguments, const Program& program, uint32_t windows, double seconds) {
  Options options = arguments.options;
  options.windows = windows;
  options.seconds = std::min(options.seconds, seconds);
  options.seed = std::random_device{}();
  options.again = WalkPredictor(options.depth);
  if (arguments.mode == "host") return Judge(program, WalkPredictor(options.depth), options);
  const WalkMode mode = arguments.mode == "irq" ? WalkMode::kInterrupt : arguments.mode == "task" ? WalkMode::kTask : WalkMode::kPreferTask;
  auto walker = KernelWalker::Create(mode, options.depth);
  if (!walker.ok()) {
    std::fprintf(stderr, "fidelity: %s\n", std::string(walker.status().message()).c_str());
    std::exit(1);
  }
  options.on_tick = [&](int fd) { (*walker)->Attach(fd); };
  return Judge(program, (*walker)->predictor(), options);
}

// Piece by piece, so that the ledger is never far behind.
void Work(const Arguments& arguments, const Program& program, Tally* sum) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (sum->windows < arguments.options.windows) {
    const double left = arguments.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
    if (left <= 0) return;
    Tally tally = JudgeOnce(arguments, program, std::min(kPiece, arguments.options.windows - sum->windows), left);
    for (const Wrong& wrong : tally.wrongs) std::printf("WRONG %s %s: %s\n", arguments.set().c_str(), wrong.program.c_str(), wrong.text.c_str());
    std::fflush(stdout);
    if (!arguments.ledger.empty() && !AppendTally(arguments.ledger, arguments.set(), program.name, tally).ok()) std::exit(1);
    if (tally.windows == 0) return;
    sum->Add(tally);
  }
}

int Run(const Arguments& arguments) {
  std::vector<LedgerSet> ledger;
  if (!arguments.ledger.empty()) ledger = ReadLedger(arguments.ledger);
  if (arguments.table) {
    for (const LedgerSet& set : ledger) std::printf("== %s\n%s\n", set.name.c_str(), Table(set.programs, arguments.options.depth).c_str());
    return 0;
  }
  testing_support::TempDir folder;
  std::vector<std::string> missing;
  std::vector<Program> programs;
#ifdef BRINK_SPECIAL
  std::optional<Specials> specials;
#endif
  if (!arguments.command.empty()) programs = {{arguments.command[0], arguments.command, false, ""}};
#ifdef BRINK_SPECIAL
  else if (arguments.special) programs = specials.emplace(folder.path()).programs();
#endif
  else programs = MakePrograms(folder.path(), BRINK_THROWING, &missing);
  auto set = std::find_if(ledger.begin(), ledger.end(), [&](const LedgerSet& s) { return s.name == arguments.set(); });
  LedgerSet mine = set == ledger.end() ? LedgerSet{arguments.set(), {}} : *set;
  for (const Program& program : programs) {
    if (!arguments.names.empty() && std::find(arguments.names.begin(), arguments.names.end(), program.name) == arguments.names.end()) continue;
    if (arguments.threaded && program.single_threaded) continue;
    Work(arguments, program, mine.Of(program.name));
  }
  std::printf("%s", Table(mine.programs, arguments.options.depth).c_str());
  return 0;
}

}  // namespace
}  // namespace brink::fidelity

int main(int argc, char** argv) {
  brink::fidelity::Arguments arguments;
  if (!brink::fidelity::Parse(argc, argv, &arguments)) return brink::fidelity::Usage();
  return brink::fidelity::Run(arguments);
}
