// The host build of the core in bpf/walk/a64.
#include "walk/a64/run.h"

#include "walk/core_env.h"

namespace brink::walk {
void CoreBeginA64(brink_walk* state, const brink_walk_config& config) { a64_begin(state, &config); }

void CoreSettleFlagsA64(brink_walk* state) { a64_flags_settle(state); }

void CoreRunA64(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out) {
  const walk_host_env env = HostEnvironment(environment);
  const walk_host_env* outer = walk_host;
  walk_host = &env;
  a64_run(state, out);
  walk_host = outer;
}

}  // namespace brink::walk
