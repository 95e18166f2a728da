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

// Ids of the BPF programs that a process holds now.
std::vector<uint32_t> BpfPrograms(pid_t pid);
// Whether the kernel has let go of them all; waits for it.
bool ProgramsAreGone(const std::vector<uint32_t>& ids, double seconds);

// Whether BRINK_LONG asks for the long form.
bool Thorough();

// Milliseconds in which brink is as far as on a machine in `ms`: an emulated one (BRINK_EMULATED) is an order of magnitude slower.
int Patient(int ms);

std::string TargetPath();

}  // namespace brink::exact_test
