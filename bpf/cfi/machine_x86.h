/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* x86-64 for checks; machine.h says what each piece is. Words are those of struct pt_regs. */
#ifndef BRINK_BPF_CFI_MACHINE_X86_H_
#define BRINK_BPF_CFI_MACHINE_X86_H_

#include "cfi/call_site.h"

#define CFI_REG_ARG2 12	/* dx */
#define CFI_REG_ORIG_AX 15
#define CFI_REG_IP 16
#define CFI_REG_CS 17
#define CFI_REG_SP 19
#define CFI_USER32_CS 0x23
#define CFI_NR_MMAP 9
#define CFI_NR_MPROTECT 10
#define CFI_NR_EXECVE 59
#define CFI_RET_LEFT 8

/* mov $15, %rax; syscall: the way back from a signal's handler */
#define CFI_RESTORER_0 0x050f0000000fc0c7ull	/* without its first byte, 0x48 */

brink_always_inline int cfi_is_compat(const __u64 *regs)
{
	return (regs[CFI_REG_CS] & 0xffff) == CFI_USER32_CS;
}

brink_always_inline void cfi_take_args(struct brink_cfi *cfi)
{
	cfi->args[0] = cfi->regs[14];
	cfi->args[1] = cfi->regs[13];
	cfi->args[2] = cfi->regs[CFI_REG_ARG2];
	cfi->args[3] = cfi->regs[7];
	cfi->args[4] = cfi->regs[9];
	cfi->args[5] = cfi->regs[8];
}

/* Its own frame, as cfi_fill() has one. */
static __attribute__((noinline, unused)) __u64 cfi_call_of(__u64 regs)
{
	__u64 nr = 0;

	return bpf_probe_read_kernel(&nr, sizeof(nr), (const char *)regs + 8 * CFI_REG_ORIG_AX) ? ~0ull : nr;
}

brink_always_inline int cfi_in_call(const void *regs)
{
	__s64 call = 0;

	return bpf_probe_read_kernel(&call, sizeof(call), (const char *)regs + 8 * CFI_REG_ORIG_AX) || call >= 0;
}

/* By the code: int $0x80 keeps nothing in the registers that would tell. */
brink_always_inline int cfi_by_syscall(struct task_struct *task)
{
	__u64 ip = 0;
	__u16 code = 0;

	if (bpf_probe_read_kernel(&ip, sizeof(ip), (const char *)bpf_task_pt_regs(task) + 8 * CFI_REG_IP))
		return -1;
	if (bpf_probe_read_user(&code, sizeof(code), (const void *)(ip - 2)))
		return -1;
	return code == 0x050f;
}

/* Without a look at how long the call is: no other's end lies within its bytes. */
brink_always_inline int cfi_follows(__u64 to, __u64 call)
{
	return to - call - 2 <= CFI_CALL_BYTES - 2;
}

brink_always_inline int cfi_call_before(__u64 to)
{
	__u8 b[CFI_CALL_BYTES + 7] = {};

	if (bpf_probe_read_user(b, CFI_CALL_BYTES, (const void *)(to - CFI_CALL_BYTES)))
		return -1;
	return cfi_call_ends(b);
}

static __attribute__((noinline)) int cfi_restores(__u64 to)
{
	__u64 next = 0;

	return !bpf_probe_read_user(&next, sizeof(next), (const void *)(to + 1)) && next == CFI_RESTORER_0;
}

static __attribute__((noinline)) int cfi_kind_at(__u64 from)
{
	__u8 b[3] = {};
	__u32 i;

	if (bpf_probe_read_user(b, sizeof(b), (const void *)from))
		return 0;
	for (i = 0; i < 2; i++) {
		if (b[i] == 0xc3 || b[i] == 0xc2)
			return WALK_RET;
		if (b[i] == 0xe8)
			return WALK_CALL;
		if (b[i] == 0xff)
			return (b[i + 1] >> 3 & 7) == 2 ? WALK_IND_CALL : 0;
		/* rep, bnd, notrack, operand size, REX */
		if (b[i] != 0xf3 && b[i] != 0xf2 && b[i] != 0x3e && b[i] != 0x66 && (b[i] & 0xf0) != 0x40)
			break;
	}
	return 0;
}

/* A retpoline's own call: behind it lies the loop (pause or lfence) for a wrong guess. */
static __attribute__((noinline)) int cfi_captures(__u64 call)
{
	__u8 b[3] = {};

	if (bpf_probe_read_user(b, sizeof(b), (const void *)(call + 5)))
		return 0;
	return (b[0] == 0xf3 && b[1] == 0x90) || (b[0] == 0x0f && b[1] == 0xae && b[2] == 0xe8);
}

#endif /* BRINK_BPF_CFI_MACHINE_X86_H_ */
