#include <string>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  return brink::cli::Main(words);
}
