/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A thread's user registers as the kernel has saved them, into a walk. */
#ifndef BRINK_WALK_USER_REGS_H_
#define BRINK_WALK_USER_REGS_H_

#include "brink_regs.h"
#include "walk/machine.h"

#if defined(__TARGET_ARCH_arm64)

/* The registers with which the thread will go on. Returns 0 if they are those of the sample. */
WALK_INLINE int walk_take_user_regs(struct brink_walk *w, struct task_struct *task, __u64 ip, __u64 sp)
{
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);

#define A64_TAKE(n) w->reg[BRINK_A64_REG(n)].val = regs->regs[n]
	A64_TAKE(0); A64_TAKE(1); A64_TAKE(2); A64_TAKE(3); A64_TAKE(4); A64_TAKE(5); A64_TAKE(6); A64_TAKE(7);
	A64_TAKE(8); A64_TAKE(9); A64_TAKE(10); A64_TAKE(11); A64_TAKE(12); A64_TAKE(13); A64_TAKE(14); A64_TAKE(15);
	A64_TAKE(16); A64_TAKE(17); A64_TAKE(18); A64_TAKE(19); A64_TAKE(20); A64_TAKE(21); A64_TAKE(22); A64_TAKE(23);
	A64_TAKE(24); A64_TAKE(25); A64_TAKE(26); A64_TAKE(27); A64_TAKE(28); A64_TAKE(29); A64_TAKE(30);
#undef A64_TAKE
	w->reg[BRINK_A64_SP].val = regs->sp;
	w->reg[BRINK_WREG_IP].val = regs->pc;
	w->flags = (__u32)regs->pstate & A64_NZCV;
	return regs->pc != ip || regs->sp != sp;
}

#else

/* The registers with which the thread will go on. Returns 0 if they are those of the sample. */
WALK_INLINE int walk_take_user_regs(struct brink_walk *w, struct task_struct *task, __u64 ip, __u64 sp)
{
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);

	w->reg[0].val = regs->ax;
	w->reg[1].val = regs->cx;
	w->reg[2].val = regs->dx;
	w->reg[3].val = regs->bx;
	w->reg[4].val = regs->sp;
	w->reg[5].val = regs->bp;
	w->reg[6].val = regs->si;
	w->reg[7].val = regs->di;
	w->reg[8].val = regs->r8;
	w->reg[9].val = regs->r9;
	w->reg[10].val = regs->r10;
	w->reg[11].val = regs->r11;
	w->reg[12].val = regs->r12;
	w->reg[13].val = regs->r13;
	w->reg[14].val = regs->r14;
	w->reg[15].val = regs->r15;
	w->reg[BRINK_WREG_IP].val = regs->ip;
	w->flags = regs->flags;
	return regs->ip != ip || regs->sp != sp;
}

#endif

#endif /* BRINK_WALK_USER_REGS_H_ */
