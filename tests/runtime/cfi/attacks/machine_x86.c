/* What attacks know of x86-64: instructions as bytes, the kernel's signal frames, the C library's jump buffers. */
#define _GNU_SOURCE
#include "attack.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

void exit_code(char *to, int status)
{
	const unsigned char code[] = {0xbf, (unsigned char)status, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05};

	memcpy(to, code, sizeof(code));
}

void lead_to_exit(word *stack)
{
	stack[0] = 0;
	stack[1] = (word)exit42;
}

size_t forge_frame(word *to, word *stack)
{
	ucontext_t *context = (ucontext_t *)to;

	memset(context, 0, sizeof(*context));
	context->uc_mcontext.gregs[REG_RIP] = (word)g_syscall;
	context->uc_mcontext.gregs[REG_RAX] = SYS_mprotect;
	context->uc_mcontext.gregs[REG_RDI] = (word)page;
	context->uc_mcontext.gregs[REG_RSI] = page_size;
	context->uc_mcontext.gregs[REG_RDX] = PROT_READ | PROT_EXEC;
	context->uc_mcontext.gregs[REG_EFL] = 0x202;
	context->uc_mcontext.gregs[REG_CSGSFS] = 0x33 | (word)0x2b << 48;
	stack[0] = (word)exit42;
	context->uc_mcontext.gregs[REG_RSP] = (word)stack;
	return sizeof(*context) / sizeof(word);
}

word restorer(void)
{
	struct {
		word handler, flags, restorer, mask;
	} action;

	syscall(SYS_rt_sigaction, SIGUSR2, 0, &action, 8);
	return action.restorer;
}

void forge_jump(void *buffer, word target, word *stack)
{
	word guard;

	__asm__("mov %%fs:0x30, %0" : "=r"(guard));
	target ^= guard;
	((word *)buffer)[7] = target << 17 | target >> 47;
	target = (word)stack ^ guard;
	((word *)buffer)[6] = target << 17 | target >> 47;
}

void turn_jump(word target)
{
	int32_t distance = (int32_t)(target - (word)patch_jump - 5);

	memcpy(patch_jump + 1, &distance, 4);
}
