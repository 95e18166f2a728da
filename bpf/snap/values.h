/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Arguments, results and fields of a hit, fetched as user space laid down (struct brink_snap_load). */
#ifndef BRINK_BPF_SNAP_VALUES_H_
#define BRINK_BPF_SNAP_VALUES_H_

#include "snap/maps.h"

/* 0, or the address where the value (or string) lies; direct values go into *value with *direct set. */
struct snap_place {
	__u64 address;
	__u64 value;
	__u8 user;
	__u8 direct;
	__u8 ok;
};

/* Contexts are read as memory: their layouts differ by kind, offsets come from the kernel's own descriptions. */
brink_always_inline void snap_find(void *ctx, const volatile struct brink_snap_load *load,
				   const struct brink_snap_entry *entry, __u64 duration, struct snap_place *place)
{
	__u64 at = 0, pointer;
	__u32 i;

	place->direct = place->ok = 0;
	place->user = load->user >> ((load->steps - 1) & 7) & 1;
	switch (load->base) {
	case BRINK_SNAP_CTX:
		at = (__u64)ctx + (__u16)load->offset[0];
		break;
	case BRINK_SNAP_SAVED:
		if (!entry)
			return;
		pointer = entry->args[load->offset[0] & (BRINK_SNAP_ARGS - 1)];
		if (load->steps < 2) {
			place->value = pointer;
			place->direct = place->ok = 1;
			return;
		}
		at = pointer + load->offset[1];
		break;
	case BRINK_SNAP_DURATION:
		place->value = duration;
		place->direct = 1;
		place->ok = entry != 0;
		return;
	default:
		return;
	}
	for (i = 1; i < BRINK_SNAP_LOAD_STEPS; i++) {
		long error;

		if (load->base == BRINK_SNAP_SAVED && i == 1)
			continue;
		if (i >= load->steps)
			break;
		if (load->user >> (i - 1) & 1)
			error = bpf_probe_read_user(&pointer, sizeof(pointer), (void *)at);
		else
			error = bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)at);
		if (error)
			return;
		at = pointer + load->offset[i];
	}
	place->address = at;
	place->ok = 1;
}

/* 1 with *out set, or 0: not known. */
brink_always_inline int snap_load(void *ctx, const volatile struct brink_snap_load *load,
				  const struct brink_snap_entry *entry, __u64 duration, __u64 *out)
{
	__u32 size = load->size & 15, bits = load->bits ? load->bits : size * 8;
	struct snap_place place = {};
	__u64 value = 0;
	long error;

	snap_find(ctx, load, entry, duration, &place);
	if (!place.ok)
		return 0;
	if (place.direct) {
		value = place.value;
	} else {
		if (place.user)
			error = bpf_probe_read_user(&value, size, (void *)place.address);
		else
			error = bpf_probe_read_kernel(&value, size, (void *)place.address);
		if (error)
			return 0;
	}
	value >>= load->shift & 63;
	bits = 64 - (bits & 127);
	if (bits && bits < 64)
		value = load->is_signed ? (__u64)((__s64)(value << bits) >> bits) : value << bits >> bits;
	*out = value;
	return 1;
}

/* Fills those external values of the filter's inputs that are in `wanted`. */
brink_always_inline void snap_load_all(void *ctx, const struct brink_snap_entry *entry, __u64 duration,
				       struct brink_filter_in *in, __u32 wanted)
{
	__u32 i;

	for (i = 0; i < BRINK_FILTER_MAX_EXT; i++) {
		if (i >= snap_cfg.loads)
			break;
		if (!(wanted >> i & 1))
			continue;
		if (snap_load(ctx, &snap_cfg.load[i], entry, duration, &in->ext[i]))
			in->ext_known |= 1u << i;
	}
}

brink_always_inline void snap_load_strings(void *ctx, const struct brink_snap_entry *entry, struct brink_snap *snap)
{
	__u32 i;

	for (i = 0; i < BRINK_SNAP_STRINGS; i++) {
		struct snap_place place = {};

		snap->string[i][0] = 0;
		if (i >= snap_cfg.strings)
			continue;
		snap_find(ctx, &snap_cfg.string[i], entry, 0, &place);
		if (place.direct)
			place.address = place.value;
		if (!place.ok)
			continue;
		if (place.user)
			bpf_probe_read_user_str(snap->string[i], BRINK_SNAP_STRING_LEN, (void *)place.address);
		else
			bpf_probe_read_kernel_str(snap->string[i], BRINK_SNAP_STRING_LEN, (void *)place.address);
	}
}

#endif /* BRINK_BPF_SNAP_VALUES_H_ */
