// exact_record OUTPUT WINDOWS DEPTH REPEAT COMMAND...: for looking at pages and for timing, beside the tests.
#include <cstdio>
#include <cstdlib>

#include "exact_recording.h"

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: exact_record OUTPUT WINDOWS DEPTH REPEAT COMMAND...\n");
    return 2;
  }
  brink::testing_report::ExactOptions options;
  options.output = argv[1];
  options.windows = static_cast<unsigned>(std::atoi(argv[2]));
  options.depth = static_cast<unsigned>(std::atoi(argv[3]));
  options.repeat = static_cast<unsigned>(std::atoi(argv[4]));
  options.command.assign(argv + 5, argv + argc);
  auto counts = brink::testing_report::RecordExactly(options);
  if (!counts.ok()) {
    std::fprintf(stderr, "exact_record: %s\n", counts.status().ToString().c_str());
    return 1;
  }
  std::printf("%llu samples, %llu branches, %llu mispredicted\n", static_cast<unsigned long long>(counts->samples),
              static_cast<unsigned long long>(counts->branches), static_cast<unsigned long long>(counts->mispredicted));
  return 0;
}
