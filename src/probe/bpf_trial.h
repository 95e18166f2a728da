// One BPF program of the probe object: opened, configured, loaded, attached, triggered, its result read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <bpf/libbpf.h>

#include "base/fd.h"
#include "base/status.h"
#include "brink/abi/probe.h"
#include "probe/prober.h"

namespace brink::probe {

struct LinkCloser {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
using Link = std::unique_ptr<bpf_link, LinkCloser>;

struct Attached {
  Link link;
  UniqueFd fd;  // a perf event or a raw link, closed after `link`
};

enum class ProbeForm { kCommon, kTaskWork, kTaskWorkImpl };

struct Trial {
  const char* program = "";
  ProbeForm form = ProbeForm::kCommon;
  uint64_t address = 0;                                         // probe_addr
  std::function<void(bpf_program*)> prepare;                    // before load
  std::function<StatusOr<Attached>(bpf_program*)> attach;       // empty: run once by BPF_PROG_TEST_RUN
  std::function<void()> trigger;
  std::function<Status(bpf_object*)> look;                      // while loaded, after the trigger
};

struct TrialError {
  const char* stage;  // "load", "attach", "run"
  int error;
  std::string log;    // last line of libbpf or the verifier
};

// The program's output, or where and why it stopped.
struct TrialResult {
  brink_probe_out out = {};
  std::optional<TrialError> failed;
};
TrialResult RunTrial(const Trial& trial);

// The trial as a finding: on when it fired. `known_cause` may say more than errno about a failure ("" to pass).
using CauseOf = std::function<Finding(const TrialError&)>;
Finding FindingOf(Prober& prober, const TrialResult& result, const CauseOf& known_cause = nullptr);

// Attachers.
StatusOr<Attached> AttachSelf(bpf_program* program);                       // by its section name
StatusOr<Attached> AttachClock(bpf_program* program);                      // this thread's cpu-clock, 2 kHz
// A few system calls of this process: getppid.
void CallGetppid();
// The kernel's symbol behind getppid: "__x64_sys_getppid".
const char* GetppidSymbol();

// Where a function of this binary lies in its file, for uprobes.
struct FilePlace {
  std::string path;
  uint64_t offset = 0;
};
StatusOr<FilePlace> PlaceOf(const void* function);

}  // namespace brink::probe
