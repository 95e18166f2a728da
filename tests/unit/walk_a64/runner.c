/*
 * Executes instruction words on states that come on standard input and tells the states they leave. A64, without a
 * library: everything but the words is done in the handler of the signal that ends each case.
 */
#include "case.h"

typedef unsigned long u64;
typedef unsigned int u32;

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 asm("x8") = number, x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c, x3 asm("x3") = d, x4 asm("x4") = e, x5 asm("x5") = f;

	asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
enum { READ = 63, WRITE = 64, EXIT = 93, SIGALTSTACK = 132, SIGACTION = 134, MMAP = 222 };

void *memcpy(void *to, const void *from, u64 n)
{
	for (u64 i = 0; i < n; i++)
		((char *)to)[i] = ((const char *)from)[i];
	return to;
}

static void copy(void *to, const void *from, u64 n)
{
	for (u64 i = 0; i < n / 8; i++)
		((volatile u64 *)to)[i] = ((const u64 *)from)[i];
}

/* What the kernel puts on the stack of a handler. */
struct frame {
	u64 flags, link, stack[3], mask, unused[15];
	u64 pad;
	u64 fault, x[31], sp, pc, pstate, pad2;
	unsigned char records[4096];
};
struct fpsimd {
	u32 magic, size, fpsr, fpcr;
	unsigned char v[32][16];
};

static struct a64_input inputs[A64_BATCH];
static struct a64_state outputs[A64_BATCH];
static u32 count, next;
static struct frame home;
static unsigned char stack[65536] __attribute__((aligned(16)));

static struct fpsimd *vectors(struct frame *f)
{
	unsigned char *at = f->records;

	while (*(u32 *)at != 0x46508001)
		at += ((u32 *)at)[1];
	return (struct fpsimd *)at;
}

static void handler(int signal, void *info, struct frame *f)
{
	(void)info;
	if (next == 0) {
		copy(&home, f, __builtin_offsetof(struct frame, records));
	} else {
		struct a64_state *out = &outputs[next - 1];

		copy(out->x, f->x, sizeof(out->x));
		out->sp = f->sp;
		out->pc = f->pc;
		out->pstate = f->pstate;
		out->signal = signal;
		copy(out->v, vectors(f)->v, sizeof(out->v));
		copy(out->memory, (void *)A64_WINDOW, A64_WINDOW_SIZE);
		asm volatile("mrs %0, tpidr_el0" : "=r"(out->tpidr));
	}
	if (next == count) {
		copy(f->x, home.x, sizeof(home.x));
		f->sp = home.sp;
		f->pc = home.pc + 4;
		f->pstate = home.pstate;
		return;
	}
	const struct a64_state *in = &inputs[next].state;

	copy(f->x, in->x, sizeof(in->x));
	f->sp = in->sp;
	f->pc = A64_SLOTS + 16 * next;
	f->pstate = in->pstate;
	copy(vectors(f)->v, in->v, sizeof(in->v));
	vectors(f)->fpcr = vectors(f)->fpsr = 0;
	copy((void *)A64_WINDOW, in->memory, A64_WINDOW_SIZE);
	asm volatile("msr tpidr_el0, %0" : : "r"(in->tpidr));
	next++;
}

static void whole(int number, int fd, void *at, u64 size)
{
	while (size) {
		long n = call(number, fd, (long)at, size, 0, 0, 0);

		if (n <= 0)
			call(EXIT, number == READ && n == 0 ? 0 : 1, 0, 0, 0, 0, 0);
		at = (char *)at + n;
		size -= n;
	}
}

void _start(void)
{
	struct { void *handler; u64 flags; void *restorer; u64 mask; } action = { handler, 0x4 | 0x08000000 | 0x40000000, 0, 0 };
	struct { void *sp; int flags, pad; u64 size; } alternative = { stack, 0, 0, sizeof(stack) };
	static const int signals[] = { 4, 5, 7, 8, 11 };
	u32 *code;

	call(MMAP, A64_DATA, A64_PAGE, 3, 0x32, -1, 0);
	code = (u32 *)call(MMAP, A64_CODE, A64_CODE_SIZE, 7, 0x32, -1, 0);
	call(SIGALTSTACK, (long)&alternative, 0, 0, 0, 0, 0);
	for (u64 i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		call(SIGACTION, signals[i], (long)&action, 0, 8, 0, 0);
	for (u64 i = 0; i < A64_CODE_SIZE / 4; i++)
		code[i] = 0xd4200000;
	for (;;) {
		u32 *slots = (u32 *)A64_SLOTS;

		whole(READ, 0, &count, sizeof(count));
		whole(READ, 0, inputs, count * sizeof(*inputs));
		for (u32 i = 0; i < count; i++) {
			slots[4 * i] = inputs[i].word[0];
			slots[4 * i + 1] = inputs[i].word[1];
		}
		asm volatile("dsb ish\n\tisb" : : : "memory");
		next = 0;
		asm volatile("brk #0" : : : "memory");
		whole(WRITE, 1, outputs, count * sizeof(*outputs));
	}
}
