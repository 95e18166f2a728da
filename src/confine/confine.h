// Confinement of the commands that read what others wrote (recordings, ELF files, perf maps): once confined, a parser
// that was taken over can neither start programs nor trace, change or signal others, nor open the network, nor write
// anything but the command's own outputs.
//
// Three layers, each used where the kernel has it (found by trying):
//   capabilities   all but those that read files (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYSLOG); no_new_privs
//   landlock       writing, creating and removing only below the folders of the outputs; no TCP; no signals to others
//   seccomp        a list of system calls; the rest is ENOSYS, and those of attackers (execve, ptrace, bpf, mount, ...) kill
// Landlock also takes /proc/PID/root and /proc/PID/map_files of other processes away, which symbols of containers and
// deleted files need: a broker, forked before, opens those for reading and nothing else (broker.h).
//
// Threads: call Confine once, before the first thread is started. It holds for the process and cannot be taken back.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace brink {

struct ConfineRequest {
  std::vector<std::string> outputs;  // files that may be written or created; "" and "-" are skipped
  bool broker = true;                // files of other processes may be read
};

// One layer: in force, or why not. Never an error: a kernel without it runs brink all the same.
struct ConfineLayer {
  const char* name;
  bool in_force = false;
  std::string reason;  // why not; "" when in force
};

struct Confinement {
  ConfineLayer capabilities{"capabilities", false, ""};
  ConfineLayer landlock{"landlock", false, ""};
  ConfineLayer seccomp{"seccomp", false, ""};
};

// BRINK_CONFINE=off in the environment turns all layers off (each layer's reason says so).
Confinement Confine(const ConfineRequest& request);

// The layers, each alone; exposed for tests and for Confine.
Status LimitFiles(const std::vector<std::string>& outputs);  // landlock
Status LimitSystemCalls();                                    // seccomp

// For a collector, once everything is loaded and opened and the command was started: programs, tracing, namespaces,
// modules, other identities and the network kill. Inherited by threads started later. FailedPrecondition in a
// sanitizer's build.
Status LimitCollector();

}  // namespace brink
