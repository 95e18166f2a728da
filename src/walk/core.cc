// The host build of the core in bpf/walk.
#include "walk/run.h"

#include "walk/host_walker.h"

namespace brink::walk {
namespace {

const CoreEnvironment& Environment(void* opaque) { return *static_cast<const CoreEnvironment*>(opaque); }

int Read(void* opaque, void* dst, __u32 size, __u64 address) { return Environment(opaque).read(address, dst, size) ? 0 : 1; }

__u32 Translate(void* opaque, __u64 hash, __u64 address) { return Environment(opaque).translate(hash, address); }

__u64 Clock(void* opaque) { return Environment(opaque).clock ? Environment(opaque).clock() : 0; }

__u32 Access(void* opaque, __u64 address) { return Environment(opaque).access ? Environment(opaque).access(address) : 0; }

}  // namespace

void CoreBegin(brink_walk* state, const brink_walk_config& config) { walk_begin(state, &config); }

void CoreSettleFlags(brink_walk* state) { walk_flags_settle(state); }

void CoreRun(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out) {
  walk_host_env env{};
  env.uops = environment.uops.data();
  env.nr_uops = static_cast<__u32>(environment.uops.size());
  env.pages = environment.pages.data();
  env.nr_pages = static_cast<__u32>(environment.pages.size());
  env.opaque = const_cast<CoreEnvironment*>(&environment);
  env.read = Read;
  env.xlat = Translate;
  env.clock = Clock;
  env.access = Access;
  const walk_host_env* outer = walk_host;
  walk_host = &env;
  walk_run(state, out);
  walk_host = outer;
}

}  // namespace brink::walk
