// What both cores' host builds see of a CoreEnvironment. Included once a core, after its run.h.
#pragma once

#include "walk/host_walker.h"

namespace brink::walk {
namespace {

const CoreEnvironment& Environment(void* opaque) { return *static_cast<const CoreEnvironment*>(opaque); }

int Read(void* opaque, void* dst, __u32 size, __u64 address) { return Environment(opaque).read(address, dst, size) ? 0 : 1; }

__u32 Translate(void* opaque, __u64 hash, __u64 address) { return Environment(opaque).translate(hash, address); }

__u64 Clock(void* opaque) { return Environment(opaque).clock ? Environment(opaque).clock() : 0; }

__u32 Access(void* opaque, __u64 address) { return Environment(opaque).access ? Environment(opaque).access(address) : 0; }

walk_host_env HostEnvironment(const CoreEnvironment& environment) {
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
  return env;
}

// One walk of a core, `run` of its run.h, in `environment`.
template <void (*run)(brink_walk*, brink_walk_out*)>
void RunCore(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out) {
  const walk_host_env env = HostEnvironment(environment);
  const walk_host_env* outer = walk_host;
  walk_host = &env;
  run(state, out);
  walk_host = outer;
}

}  // namespace
}  // namespace brink::walk
