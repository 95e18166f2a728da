/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The machine whose code is walked, which is the one that the object is for: the core, and how a thread's registers come
 * into it.
 */
#ifndef BRINK_WALK_MACHINE_H_
#define BRINK_WALK_MACHINE_H_

#include "lib/regs.h"

#if defined(__TARGET_ARCH_arm64)

#include "walk/a64/run.h"

#define walk_begin a64_begin
#define walk_run a64_run
#define walk_step a64_step
#define WALK_STACK_POINTER BRINK_A64_SP

#else

#include "walk/run.h"

#define WALK_STACK_POINTER WALK_RSP

#endif

#include "brink_mm.h"
#include <bpf/bpf_core_read.h>

#if defined(__TARGET_ARCH_arm64)

/* The registers of a perf_event context, at fixed offsets (lib/regs.h says why). */
WALK_INLINE void walk_take_regs(struct brink_walk *w, void *ctx)
{
#define A64_TAKE(n) w->reg[BRINK_A64_REG(n)].val = brink_ctx_u64(ctx, 8 * (n))
#define A64_TAKE_8(n) \
	do { \
		A64_TAKE(n); A64_TAKE(n + 1); A64_TAKE(n + 2); A64_TAKE(n + 3); \
		A64_TAKE(n + 4); A64_TAKE(n + 5); A64_TAKE(n + 6); A64_TAKE(n + 7); \
	} while (0)
	A64_TAKE_8(0);
	A64_TAKE_8(8);
	A64_TAKE_8(16);
	A64_TAKE_8(24);	/* 31 is sp, which follows */
#undef A64_TAKE_8
#undef A64_TAKE
	w->reg[BRINK_WREG_IP].val = brink_ctx_ip(ctx);
	w->flags = brink_ctx_u64(ctx, BRINK_REG_PSTATE) & A64_NZCV;
}

/* Registers are known at the start of a walk. */
WALK_INLINE void walk_regs_known(struct brink_walk *w)
{
	__u32 i;

	for (i = 0; i < 16; i++) {
		w->reg[i].unk = 0;
		w->reg[24 + i].unk = 0;
	}
}

/*
 * The thread's own base. The kernel has what it was at the last switch: 0 until then in a program whose C library has
 * just set it, hence not known.
 */
WALK_INLINE void walk_take_bases(struct brink_walk *w, const struct task_struct *task)
{
	const struct task_struct___a64 *thread = (const struct task_struct___a64 *)task;
	__u64 base = BPF_CORE_READ(thread, thread.uw.tp_value);

	if (!base)
		return;
	w->reg[BRINK_WREG_FS].val = base;
	w->reg[BRINK_WREG_FS].unk = 0;
}

#else

WALK_INLINE void walk_take_regs(struct brink_walk *w, void *ctx)
{
	w->reg[0].val = brink_ctx_u64(ctx, 80);
	w->reg[1].val = brink_ctx_u64(ctx, 88);
	w->reg[2].val = brink_ctx_u64(ctx, 96);
	w->reg[3].val = brink_ctx_u64(ctx, 40);
	w->reg[4].val = brink_ctx_u64(ctx, 152);
	w->reg[5].val = brink_ctx_u64(ctx, 32);
	w->reg[6].val = brink_ctx_u64(ctx, 104);
	w->reg[7].val = brink_ctx_u64(ctx, 112);
	w->reg[8].val = brink_ctx_u64(ctx, 72);
	w->reg[9].val = brink_ctx_u64(ctx, 64);
	w->reg[10].val = brink_ctx_u64(ctx, 56);
	w->reg[11].val = brink_ctx_u64(ctx, 48);
	w->reg[12].val = brink_ctx_u64(ctx, 24);
	w->reg[13].val = brink_ctx_u64(ctx, 16);
	w->reg[14].val = brink_ctx_u64(ctx, 8);
	w->reg[15].val = brink_ctx_u64(ctx, 0);
	w->reg[BRINK_WREG_IP].val = brink_ctx_u64(ctx, 128);
	w->flags = brink_ctx_u64(ctx, 144);
}

WALK_INLINE void walk_regs_known(struct brink_walk *w)
{
	__u32 i;

	for (i = 0; i < 16; i++)
		w->reg[i].unk = 0;
}

WALK_INLINE void walk_take_bases(struct brink_walk *w, const struct task_struct *task)
{
	const struct task_struct___thread *thread = (const struct task_struct___thread *)task;

	w->reg[BRINK_WREG_FS].val = BPF_CORE_READ(thread, thread.fsbase);
	w->reg[BRINK_WREG_FS].unk = 0;
	w->reg[BRINK_WREG_GS].val = BPF_CORE_READ(thread, thread.gsbase);
	w->reg[BRINK_WREG_GS].unk = 0;
}

#endif

#endif /* BRINK_WALK_MACHINE_H_ */
