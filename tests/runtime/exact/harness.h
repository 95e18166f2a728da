// Starting the programs that are followed, and brink beside them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace brink::exact_test {

// exact_target with these words, as a child of the test; its standard output goes nowhere.
pid_t StartTarget(const std::vector<std::string>& words);
// brink with these words, quiet.
pid_t StartBrink(const std::vector<std::string>& words);

// Exit status, 128 + signal when killed; -1 when it has not ended after `seconds` (it is killed then).
int WaitFor(pid_t pid, double seconds);
void SleepMs(double ms);

// Whether BRINK_LONG asks for the long form.
bool Thorough();

std::string TargetPath();

}  // namespace brink::exact_test
