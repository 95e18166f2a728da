/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The core's surroundings in user space: what src/walk/core.cc sets up for the calling thread. */
#ifndef BRINK_WALK_HOST_ENV_H_
#define BRINK_WALK_HOST_ENV_H_

#include "brink/abi/walk_state.h"

struct walk_host_env {
	const struct brink_uop *uops;
	const struct brink_walk_page *pages;
	__u32 nr_uops;
	__u32 nr_pages;
	void *opaque;
	int (*read)(void *opaque, void *dst, __u32 size, __u64 address);	/* 0 on success */
	__u32 (*xlat)(void *opaque, __u64 hash, __u64 address);			/* page slot, 0 = none */
	__u64 (*clock)(void *opaque);
	__u32 (*access)(void *opaque, __u64 address);	/* BRINK_ACCESS_*; asked where brink_walk.mm is not 0 */
};

static thread_local const struct walk_host_env *walk_host;

#define WALK_GLOBAL [[maybe_unused]] static
#define WALK_OPAQUE(x) do { } while (0)
#define WALK_READ(w, dst, size, address) walk_host->read(walk_host->opaque, dst, size, address)
#define WALK_CLOCK() walk_host->clock(walk_host->opaque)

static inline const struct brink_uop *walk_uop(const struct brink_walk *, __u32 index)
{
	return index < walk_host->nr_uops ? walk_host->uops + index : nullptr;
}

static inline const struct brink_walk_page *walk_page(const struct brink_walk *, __u32 slot)
{
	return slot < walk_host->nr_pages ? walk_host->pages + slot : nullptr;
}

static inline __u32 walk_xlat_slot(__u64 hash, __u64 address)
{
	return walk_host->xlat(walk_host->opaque, hash, address);
}

#endif /* BRINK_WALK_HOST_ENV_H_ */
