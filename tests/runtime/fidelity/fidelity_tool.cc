// The same by hand: fidelity WINDOWS DEPTH [PROGRAM...] [-- command...]. Prints wrong walks and the reach table.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "programs.h"
#include "support/process.h"
#include "walk_predictor.h"

int main(int argc, char** argv) {
  using namespace brink::fidelity;
  if (argc < 3) {
    std::fprintf(stderr, "usage: fidelity WINDOWS DEPTH [PROGRAM...] [-- command...]\n");
    return 2;
  }
  Options options{.depth = static_cast<uint32_t>(std::atoi(argv[2])), .windows = static_cast<uint32_t>(std::atoi(argv[1])),
                  .seconds = 600};
  options.seed = std::random_device{}();
  brink::testing_support::TempDir folder;
  std::vector<std::string> missing, names;
  std::vector<Program> programs = MakePrograms(folder.path(), BRINK_THROWING, &missing);
  int i = 3;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) names.push_back(argv[i]);
  if (i + 1 < argc) programs = {{argv[i + 1], std::vector<std::string>(argv + i + 1, argv + argc)}};
  std::vector<std::pair<std::string, Tally>> tallies;
  for (const Program& program : programs) {
    if (!names.empty() && std::find(names.begin(), names.end(), program.name) == names.end()) continue;
    Tally tally = Judge(program, WalkPredictor(options.depth), options);
    for (const Wrong& wrong : tally.wrongs) std::printf("WRONG %s: %s\n", wrong.program.c_str(), wrong.text.c_str());
    std::fflush(stdout);
    tallies.emplace_back(program.name, tally);
  }
  std::printf("%s", Table(tallies, options.depth).c_str());
  return 0;
}
