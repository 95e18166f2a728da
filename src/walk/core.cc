// The host build of the core in bpf/walk.
#include "walk/run.h"

#include "walk/core_env.h"

namespace brink::walk {
void CoreBegin(brink_walk* state, const brink_walk_config& config) { walk_begin(state, &config); }

void CoreSettleFlags(brink_walk* state) { walk_flags_settle(state); }

void CoreRun(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out) { RunCore<walk_run>(environment, state, out); }

}  // namespace brink::walk
