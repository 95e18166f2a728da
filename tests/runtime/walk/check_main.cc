// Judges recordings given by name: check_stacks FILE... Status 1 when a record or range contradicts the program text.
#include <cstdio>

#include "walk/recording_check.h"

int main(int argc, char** argv) {
  using namespace brink::testing_support;
  int status = argc > 1 ? 0 : 2;
  for (int i = 1; i < argc; ++i) {
    auto verdict = CheckRecording(argv[i]);
    if (!verdict.ok()) {
      std::printf("%s: %s\n", argv[i], brink::Message(verdict.status()).c_str());
      return 2;
    }
    std::printf("%s: %s\n", argv[i], Describe(*verdict).c_str());
    for (const std::string& complaint : verdict->code.complaints) std::printf("  %s\n", complaint.c_str());
    if (verdict->code.wrong) status = 1;
  }
  return status;
}
