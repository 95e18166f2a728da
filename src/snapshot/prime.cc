#include "snapshot/prime.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

namespace brink {

void PrimeSnapshots(const bpf_program* program, const std::vector<int>& cpus) {
  for (int cpu : cpus) {
    LIBBPF_OPTS(bpf_test_run_opts, run, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = static_cast<uint32_t>(cpu));
    (void)bpf_prog_test_run_opts(bpf_program__fd(program), &run);
  }
}

}  // namespace brink
