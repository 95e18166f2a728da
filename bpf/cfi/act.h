/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What is done on the word of a verdict, and to whom it is not. */
#ifndef BRINK_BPF_CFI_ACT_H_
#define BRINK_BPF_CFI_ACT_H_

#include "cfi/slot.h"

#define CFI_SIGKILL 9
#define CFI_SIGSTOP 19

struct uprobes_state___cfi {
	void *xol_area;
} __attribute__((preserve_access_index));

struct mm_struct___cfi {
	struct uprobes_state___cfi uprobes_state;
} __attribute__((preserve_access_index));

struct task_struct___traced {
	unsigned int ptrace;
	struct mm_struct___cfi *mm;
} __attribute__((preserve_access_index));

/* Whether nothing may be done to this process. */
brink_always_inline int cfi_spared(const struct brink_sample *s, const struct brink_cfi *cfi)
{
	__u32 i, k, same;

	if (s->tgid <= 1 || s->tgid == brink_cfg.own_tgid)
		return 1;
	for (i = 0; i < BRINK_CFI_SPARED; i++) {
		if (!cfi_config.spared[i][0])
			continue;
		same = 1;
		for (k = 0; k < 16; k++) {
			if (cfi_config.spared[i][k] != cfi->comm[k]) {
				same = 0;
				break;
			}
			if (!cfi->comm[k])
				break;
		}
		if (same)
			return 1;
	}
	return 0;
}

/* Whether others move this process's returns: a debugger, or uprobes, which have a page of their own in it. */
brink_always_inline int cfi_probed(void)
{
	const struct task_struct___traced *task = (const void *)bpf_get_current_task_btf();

	if (BPF_CORE_READ(task, ptrace))
		return 1;
	return bpf_core_field_exists(struct mm_struct___cfi, uprobes_state) && BPF_CORE_READ(task, mm, uprobes_state.xol_area);
}

/* At most so many in each minute of the clock. Two CPUs may both begin the minute: one more each. */
brink_always_inline int cfi_within_limit(__u64 now)
{
	__u64 minute = now / 60000000000ull;

	if (cfi_minute != minute) {
		cfi_minute = minute;
		cfi_minute_acts = 0;
	}
	return __sync_fetch_and_add(&cfi_minute_acts, 1) < cfi_config.per_minute;
}

/* Kill, stop or refuse, by the verdict. Returns whether the operation is to be refused. */
brink_always_inline int cfi_act(struct cfi_slot *slot)
{
	__u32 verdict = slot->cfi.verdict, point = slot->cfi.point, did = 0;

	if (verdict & cfi_config.kill)
		did |= BRINK_CFI_DID_KILL;
	else if (verdict & cfi_config.stop)
		did |= BRINK_CFI_DID_STOP;
	if (point == BRINK_CFI_LSM && (verdict & cfi_config.deny))
		did |= BRINK_CFI_DID_DENY;
	if (!did || slot->unsure)
		return 0;
	if (!(verdict & BRINK_CFI_P8) && cfi_probed()) {
		slot->cfi.action = did | BRINK_CFI_DID_PROBED;
		cfi_count_add(BRINK_CFI_CNT_HELD_BACK, 1);
		return 0;
	}
	if (cfi_spared(&slot->sample, &slot->cfi)) {
		slot->cfi.action = did | BRINK_CFI_DID_SPARE;
		cfi_count_add(BRINK_CFI_CNT_HELD_BACK, 1);
		return 0;
	}
	if (cfi_config.flags & BRINK_CFI_CFG_DRY) {
		slot->cfi.action = did | BRINK_CFI_DID_DRY;
		cfi_count_add(BRINK_CFI_CNT_WOULD, 1);
		return 0;
	}
	if (!cfi_within_limit(slot->sample.time_ns)) {
		slot->cfi.action = did | BRINK_CFI_DID_LIMIT;
		cfi_count_add(BRINK_CFI_CNT_HELD_BACK, 1);
		return 0;
	}
	if (did & BRINK_CFI_DID_KILL) {
		bpf_send_signal(CFI_SIGKILL);
		cfi_count_add(BRINK_CFI_CNT_KILLED, 1);
	} else if (did & BRINK_CFI_DID_STOP) {
		bpf_send_signal(CFI_SIGSTOP);
		cfi_count_add(BRINK_CFI_CNT_STOPPED, 1);
	}
	if (did & BRINK_CFI_DID_DENY)
		cfi_count_add(BRINK_CFI_CNT_DENIED, 1);
	slot->cfi.action = did;
	return !!(did & BRINK_CFI_DID_DENY);
}

#endif /* BRINK_BPF_CFI_ACT_H_ */
