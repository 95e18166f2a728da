// The host build of the core in bpf/walk/a64.
#include "walk/a64/run.h"

#include "walk/core_env.h"

namespace brink::walk {
void CoreBeginA64(brink_walk* state, const brink_walk_config& config) { a64_begin(state, &config); }

void CoreSettleFlagsA64(brink_walk* state) { a64_flags_settle(state); }

void CoreRunA64(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out) { RunCore<a64_run>(environment, state, out); }

}  // namespace brink::walk
