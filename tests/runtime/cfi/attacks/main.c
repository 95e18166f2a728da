/* attack NAME: runs one attack on itself. Exit status 42: it had its effect; others: it did not. */
#define _GNU_SOURCE
#include "attack.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static word words[1024] __attribute__((aligned(16)));

/* A1 and A17: return to the entry of a function; A2: to its middle. */
static void a1(void) { words[0] = (word)win; ready(); corrupt(words, 1); }
static void a1_read(void) { words[0] = (word)win; ready(); request(words, 1); }
static void a2(void) { words[0] = (word)win_middle; words[1] = 0; words[2] = (word)exit42; ready(); corrupt(words, 3); }
static void a2_read(void) { words[0] = (word)win_middle; words[1] = 0; words[2] = (word)exit42; ready(); request(words, 3); }
static void a3(void) { size_t n = chain(words, 0, 0, 0); ready(); corrupt(words, n); }
static void a3_read(void) { size_t n = chain(words, 0, 0, 0); ready(); request(words, n); }
static void a4(void) { size_t n = chain(words, 0, 0, 40); ready(); corrupt(words, n); }
static void a5(void) { size_t n = chain(words, 1, 0, 0); ready(); corrupt(words, n); }
static void a5_read(void) { size_t n = chain(words, 1, 0, 0); ready(); request(words, n); }
static void a6(void) { size_t n = chain(words, 0, 1, 0); ready(); corrupt(words, n); }

/* A7: what comes first has left every window when it matters. */
static volatile int flushed;
__attribute__((noinline)) static void flush(void)
{
	for (int i = 0; i < 64; i++)
		flushed += i;
}
__attribute__((noinline)) static void win_flush(void) { flush(); win(); }
static void a7(void) { words[0] = (word)win_flush; ready(); corrupt(words, 1); }
__attribute__((noinline)) static void win_sleep(void) { usleep(2000); win(); }
static void a8(void) { words[0] = (word)win_sleep; ready(); corrupt(words, 1); }

/* A9: the saved frame pointer and `leave` move the stack to the heap. */
__attribute__((noinline)) static void pivot(word *heap)
{
	volatile word *frame = (volatile word *)__builtin_frame_address(0);

	frame[0] = (word)heap;
	frame[1] = (word)g_leave;
}
static void a9(void)
{
	word *heap = malloc(65536);

	heap[4096] = 0;
	chain(heap + 4097, 0, 0, 0);
	ready();
	pivot(heap + 4096);
}

/* A10: a signal's frame that no signal made. It is longer than what lies above on the stack otherwise. */
__attribute__((noinline)) static void corrupt_below_room(size_t n)
{
	volatile char room[8192];

	room[0] = 0;
	ready();
	corrupt(words, n);
	room[1] = 0;
}
static void a10(void)
{
	size_t n = 0;

	words[n++] = (word)g_pop_rax;
	words[n++] = SYS_rt_sigreturn;
	words[n++] = (word)g_syscall;
	n += forge_frame(&words[n], &words[900]);
	corrupt_below_room(n);
}
/* The same by the way that every handler takes: libc's restorer, or the kernel's. */
static void nothing(int number) { (void)number; }
static void a10_libc(void)
{
	size_t n = 0;

	signal(SIGUSR2, nothing);
	raise(SIGUSR2); /* an honest one */
	words[n++] = restorer();
	n += forge_frame(&words[n], &words[900]);
	corrupt_below_room(n);
}

static void a11(void)
{
	static word table[8];
	size_t n = 0;

	table[n++] = (word)jop_rdi;
	table[n++] = (word)jop_rsi;
	table[n++] = (word)jop_rdx;
	table[n++] = (word)jop_rax;
	table[n++] = (word)jop_syscall;
	table[n++] = (word)jop_exit;
	ready();
	jop_start(table);
}

#ifndef __aarch64__ /* whose instructions have no middle */
static void a12(void)
{
	size_t n = chain(words, 0, 0, 0);

	/* Behind the call the chain goes on in the middle of an instruction. */
	words[n - 1] = (word)g_hidden;
	words[n] = 0;
	words[n + 1] = (word)exit42;
	ready();
	corrupt(words, n + 2);
}
#endif

/* A13 and A14: a request that is too long for its buffer reaches the pointer behind it. */
static struct {
	char buffer[64];
	void (*volatile handler)(void);
} session;
static void honest(void) { flushed++; }
__attribute__((noinline)) static void dispatch_now(int fd)
{
	if (read(fd, session.buffer, 72) != 72)
		_exit(3);
	session.handler();
}
static int session_fds[2];
static void dispatch_warm(void)
{
	char bytes[72] = "";
	void (*handler)(void) = honest;

	if (!session_fds[1] && pipe(session_fds))
		_exit(3);
	memcpy(bytes + 64, &handler, 8);
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	dispatch_now(session_fds[0]);
}
static void dispatch_attack(word target)
{
	char bytes[72] = "";

	memcpy(bytes + 64, &target, 8);
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	ready();
	dispatch_now(session_fds[0]);
}
static void a13(void) { dispatch_attack((word)win + 4); }
static void a14(void) { dispatch_attack((word)win); }

/* A15: a fake object whose functions are real ones, called in a loop by honest code. */
struct object;
struct table { void (*method)(struct object *); };
struct object { const struct table *vtable; word a, b; };
static void method_count(struct object *o) { o->a++; }
static void method_protect(struct object *o) { mprotect((void *)o->a, o->b, PROT_READ | PROT_EXEC); }
static void method_exit(struct object *o) { (void)o; exit42(); }
static const struct table counting = {method_count}, protecting = {method_protect}, exiting = {method_exit};
__attribute__((noinline)) static void all_of(struct object **objects, int n)
{
	for (int i = 0; i < n; i++)
		objects[i]->vtable->method(objects[i]);
}
static void a15_warm(void)
{
	struct object o = {&counting, 0, 0}, *list[] = {&o};

	all_of(list, 1);
}
static void a15(void)
{
	struct object one = {&protecting, (word)page, page_size}, two = {&exiting, 0, 0}, *list[] = {&one, &two};

	ready();
	all_of(list, 2);
}

/* A16: the slot of abs() in the table of the dynamic linker. */
extern int probe_me(int);
__attribute__((noinline)) static void use_slot(int fd)
{
	char bytes[72];

	if (read(fd, bytes, 72) != 72)
		_exit(3);
	probe_me(1);
}
static void slot_warm(void)
{
	static const char bytes[72];

	if (!session_fds[1] && pipe(session_fds))
		_exit(3);
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	use_slot(session_fds[0]);
}
extern word *slot_of_probe_me(void);
static void a16(void)
{
	static const char bytes[72];
	word *slot = slot_of_probe_me();

	if (!slot || mprotect((void *)((word)slot & ~4095ul), 4096, PROT_READ | PROT_WRITE))
		_exit(4);
	*(volatile word *)slot = (word)win;
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	ready();
	use_slot(session_fds[0]);
}

static size_t to_libc(void)
{
	size_t n = chain(words, 0, 0, 0);

	/* instead of rax and a system call instruction: the library's own function */
	n = 6;
#ifdef __aarch64__
	words[n++] = (word)g_tail; /* a return leaves its own target as the next one's */
#endif
	words[n++] = (word)mprotect;
	words[n++] = (word)exit42;
	return n;
}
static void a17(void) { size_t n = to_libc(); ready(); corrupt(words, n); }
/* the return itself goes to the library: registers are what they are, memory is made by the call before */
static void a17_read(void) { size_t n = to_libc(); ready(); request(words, n); }

/* A18: a jump buffer whose address leads elsewhere, mangled as the library does. */
static jmp_buf buffer;
__attribute__((noinline)) static void jump_now(int fd)
{
	char bytes[72];

	if (read(fd, bytes, 72) != 72)
		_exit(3);
	longjmp(buffer, 1);
}
static void a18(void)
{
	static const char bytes[72];

	if (setjmp(buffer))
		_exit(5);
	lead_to_exit(&words[512]);
	forge_jump(buffer, (word)win_middle, &words[512]);
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	ready();
	jump_now(session_fds[0]);
	_exit(5);
}
static void a18_warm(void)
{
	slot_warm();
	if (!setjmp(buffer))
		longjmp(buffer, 1);
}

/* A20: code of one's own. */
static void a20(void)
{
	exit_code(page, 42);
	ready();
	mprotect(page, page_size, PROT_READ | PROT_EXEC);
	((void (*)(void))page)();
}

/* A21: a jump of the program itself is turned. */
__attribute__((noinline)) static void use_patched(int fd)
{
	char bytes[72];

	if (read(fd, bytes, 72) != 72)
		_exit(3);
	patch_me();
}
static void patch_warm(void)
{
	static const char bytes[72];

	if (!session_fds[1] && pipe(session_fds))
		_exit(3);
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	use_patched(session_fds[0]);
}
static void a21(void)
{
	static const char bytes[72];
	word start = (word)patch_jump & ~4095ul;

	mprotect((void *)start, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	turn_jump((word)win);
	mprotect((void *)start, 8192, PROT_READ | PROT_EXEC);
	/* The server goes on. */
	for (int i = 0; i < 20; i++) {
		request(0, 0);
		usleep(2000);
	}
	if (write(session_fds[1], bytes, 72) != 72)
		_exit(3);
	ready();
	use_patched(session_fds[0]);
}

/* A22: the attack in one thread, the other busy. */
static void *second(void *unused)
{
	const struct timespec pause = {0, 5000000};
	(void)unused;
	for (int i = 0; i < 40; i++)
		nanosleep(&pause, 0);
	a3();
	return 0;
}
static void a22(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, second, 0);
	for (;;) {
		request(0, 0);
		usleep(100);
	}
}

/* A chain that executes a program: this one, which then says so. */
static void a_exec(void)
{
	static char path[] = "/proc/self/exe", said[] = "executed";
	static char *const argv[] = {path, said, 0};
	size_t n = 0;

	words[n++] = (word)g_pop_rdi;
	words[n++] = (word)path;
	words[n++] = (word)g_pop_rsi;
	words[n++] = (word)argv;
	words[n++] = (word)g_pop_rdx;
	words[n++] = 0;
	words[n++] = (word)g_pop_rax;
	words[n++] = SYS_execve;
	words[n++] = (word)g_syscall;
	FRAME_WORD(words, n);
	words[n++] = (word)exit42;
	ready();
	corrupt(words, n);
}

/* Nothing between a sleep, at which branch hardware is emptied, and a sensitive call. */
static void a_short(void)
{
	/* So long that even in a slow guest it is not over before it is waited for: then there would be no switch. */
	static const long while_asleep[2] = {0, 200000000};

	for (int i = 0; i < 5; i++) {
		long result = SYS_nanosleep, first = (long)while_asleep, second = 0;

#ifdef __aarch64__
		register long x8 __asm__("x8") = result, x0 __asm__("x0") = first, x1 __asm__("x1") = second;

		__asm__ volatile("svc #0\n\tmov x8, %3\n\tmov x0, #0\n\tmov x1, #0\n\tmov x2, #0\n\tsvc #0" : "+r"(x8), "+r"(x0), "+r"(x1) : "i"(SYS_dup3) : "x2", "memory");
#else
		__asm__ volatile("syscall\n\tmov %3, %%eax\n\txor %%edi, %%edi\n\txor %%esi, %%esi\n\tsyscall" : "+a"(result), "+D"(first), "+S"(second) : "i"(SYS_dup2) : "rcx", "r11", "memory");
#endif
	}
	_exit(0);
}

void a19(void); /* throw.cc: needs an exception */
void a19_warm(void);

static const struct {
	const char *name;
	void (*run)(void);
	void (*warm)(void);
} attacks[] = {
	{"A1", a1, 0}, {"A1r", a1_read, 0}, {"A2", a2, 0}, {"A2r", a2_read, 0}, {"A3", a3, 0}, {"A3r", a3_read, 0}, {"A4", a4, 0}, {"A5", a5, 0}, {"A5r", a5_read, 0}, {"A6", a6, 0}, {"A7", a7, flush},
	{"A8", a8, 0}, {"A9", a9, 0}, {"A10", a10, 0}, {"A10l", a10_libc, 0}, {"A11", a11, 0},
#ifndef __aarch64__
	{"A12", a12, 0},
#endif
	{"A13", a13, dispatch_warm}, {"A14", a14, dispatch_warm}, {"A15", a15, a15_warm}, {"A16", a16, slot_warm}, {"A17", a17, 0},
	{"A17r", a17_read, 0}, {"A18", a18, a18_warm}, {"A19", a19, a19_warm}, {"A20", a20, 0}, {"A21", a21, patch_warm}, {"A22", a22, 0}, {"exec", a_exec, 0}, {"short", a_short, 0},
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "executed"))
		return 44;
	for (size_t i = 0; argc == 2 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (strcmp(argv[1], attacks[i].name))
			continue;
		warm_up(attacks[i].warm);
		attacks[i].run();
		return 5;
	}
	for (size_t i = 0; argc == 1 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (attacks[i].name[0] == 'A')
			printf("%s\n", attacks[i].name);
	}
	return argc == 1 ? 0 : 2;
}
