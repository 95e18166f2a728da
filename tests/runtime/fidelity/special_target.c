/*
 * Targets of an unusual kind for the fidelity test, chosen by the first argument. Each works for seconds in user mode;
 * what it computes does not matter.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 40000000ul

static volatile unsigned long sink;

/* A probe is planted at its entry and within (the test knows the symbol). */
extern const char special_inside[];
__attribute__((noinline, noclone)) unsigned long special_probed(unsigned long n)
{
	unsigned long sum = n;

	for (int i = 0; i < 20; i++)
		sum = sum & 1 ? sum * 3 + 1 : sum >> 1;
	__asm__ volatile(".globl special_inside\nspecial_inside: nop" : "+r"(sum));
	return sum;
}

/* Where the two places are in the file. */
static int print_places(void)
{
	uintptr_t places[2] = {(uintptr_t)special_probed, (uintptr_t)special_inside};
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, offset;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) != 3)
			continue;
		for (int i = 0; i < 2; i++) {
			if (places[i] >= start && places[i] < end)
				printf("%lu\n", places[i] - start + offset);
		}
	}
	return 0;
}

static unsigned long work(unsigned long n)
{
	char text[32];

	snprintf(text, sizeof(text), "%lx-%lu", n, n % 7);
	return special_probed(n) + strlen(text) + (n % 3 ? n ^ 0x55 : n >> 2);
}

static void probed(void)
{
	for (unsigned long i = 0; i < ROUNDS; i++)
		sink += work(i);
}

/* The C library's text differs from the file's in this process only. */
static void patched(void)
{
	uint8_t *at = dlsym(RTLD_DEFAULT, "labs");
	uintptr_t page = (uintptr_t)at & ~4095ul;
	static const uint8_t code[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc0, 0x90, 0xc3};	/* n + 1 */
	long (*call)(long) = (long (*)(long))at;

	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		exit(3);
	memcpy(at, code, sizeof(code));
	mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
	for (unsigned long i = 0; i < ROUNDS; i++)
		sink += call(i) == (long)i + 1 ? work(i) : 0;
}

/* The segment base that the kernel remembers is not the one in use. */
__attribute__((target("fsgsbase"))) static void wrgsbase(void)
{
	static unsigned long table[2][8] = {{1, 2, 3, 5, 7, 11, 13, 17}, {2, 1, 4, 1, 6, 1, 8, 1}};

	if (!(getauxval(AT_HWCAP2) & 2))
		exit(3);
	for (unsigned long i = 0; i < ROUNDS; i++) {
		unsigned long value;

		_writegsbase_u64((uintptr_t)table[i & 1]);
		for (unsigned long j = 0; j < 8; j++) {
			__asm__ volatile("mov %%gs:(,%1,8), %0" : "=r"(value) : "r"(j));
			sink += value & 1 ? special_probed(value) : value;
		}
	}
}

/* Code made at run time, and made anew over and over at the same place. */
static uint8_t *emit(uint8_t *at, unsigned long i)
{
	/* mov eax, imm32; L: test eax, 1 << k; jz over; add edi, imm; over: dec eax; jnz L; mov eax, edi; ret */
	static const uint8_t head[] = {0xb8, 0, 0, 0, 0, 0xa9, 0, 0, 0, 0, 0x74, 0x06, 0x81, 0xc7, 0, 0, 0, 0, 0xff, 0xc8, 0x75, 0xef, 0x89, 0xf8, 0xc3};
	uint32_t count = 10 + i % 50, bit = 1u << (i % 5), add = i;

	memcpy(at, head, sizeof(head));
	memcpy(at + 1, &count, 4);
	memcpy(at + 6, &bit, 4);
	memcpy(at + 14, &add, 4);
	return at;
}

static void jit(void)
{
	uint8_t *pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned long i = 0; i < ROUNDS; i++) {
		unsigned (*function)(unsigned) = (unsigned (*)(unsigned))emit(pages + (i / 64 * 0x9e5 & 0xffc0) % 65000, i / 16);

		sink += function(i);
	}
}

/* A loop that changes an instruction of its own between two rounds. */
static void selfmodifying(void)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/*
	 * L: xor byte [rip+x], 4 -> the immediate of `add eax, imm8` below; add eax, 3; test al, 8; jz N; inc eax; N: dec edi; jnz L; ret
	 */
	static const uint8_t code[] = {0x80, 0x35, 0x02, 0x00, 0x00, 0x00, 0x04, 0x83, 0xc0, 0x03, 0xa8, 0x08, 0x74, 0x02, 0xff, 0xc0, 0xff, 0xcf, 0x75, 0xec, 0xc3};

	memcpy(page, code, sizeof(code));
	for (unsigned long i = 0; i < ROUNDS; i++) {
		sink += ((unsigned (*)(unsigned))page)(100);
		for (int j = 0; j < 50; j++)
			sink += special_probed(i + j);
	}
}

static void *storm(void *unused)
{
	(void)unused;
	for (;;) {
		char *at = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int i = 0; i < 64; i += 8)
			at[i * 4096] = i;
		mprotect(at, 4096, PROT_READ);
		munmap(at + 16 * 4096, 16 * 4096);
		munmap(at, 64 * 4096);
	}
	return NULL;
}

/* Mappings come and go in other threads, and the heap in this one. */
static void mappings(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, storm, NULL);
	pthread_create(&thread, NULL, storm, NULL);
	for (unsigned long i = 0; i < ROUNDS; i++) {
		unsigned long *fresh = malloc(200000);

		for (int j = 0; j < 25000; j += 600)
			fresh[j] = work(i + j);
		sink += fresh[600];
		free(fresh);
	}
}

static void on_signal(int signal)
{
	for (int i = 0; i < 50; i++)
		sink += special_probed(signal + i);
}

static void signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 20000}, {0, 20000}};	/* a window is stepped in less, mostly */

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (unsigned long i = 0; i < ROUNDS; i++)
		sink += work(i);
}

/* Time without a system call, and the page of old system calls. */
static void clocks(void)
{
	time_t (*vsyscall_time)(time_t *) = (time_t(*)(time_t *))0xffffffffff600400ul;
	struct timespec now;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += special_probed(now.tv_nsec);
		if (i % 1000 == 0)
			sink += vsyscall_time(NULL);
	}
}

static void *count(void *shared)
{
	unsigned long *words = shared;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		__atomic_fetch_add(&words[i % 64], 1, __ATOMIC_RELAXED);
		sink += words[(i * 7) % 64] & 1 ? special_probed(i) : i;
	}
	return NULL;
}

/* Branches on memory that other threads change all the time. */
static void threads(void)
{
	static unsigned long words[64];
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, count, words);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

/* Branches on vector registers that are never loaded: only who can read them can follow. */
static void vectors(void)
{
	__asm__ volatile(
		"mov $1, %%eax\n vmovd %%eax, %%xmm0\n vpbroadcastd %%xmm0, %%ymm0\n vpxor %%ymm1, %%ymm1, %%ymm1\n xor %%ecx, %%ecx\n"
		"1: vpaddd %%ymm0, %%ymm1, %%ymm1\n vpslld $29, %%ymm1, %%ymm2\n vmovmskps %%ymm2, %%eax\n test %%eax, %%eax\n jz 2f\n inc %%ecx\n"
		"2: vpslld $26, %%ymm1, %%ymm2\n vmovmskps %%ymm2, %%eax\n cmp $0xff, %%eax\n jne 3f\n dec %%ecx\n"
		"3: vmovd %%xmm1, %%eax\n cmp $1500000000, %%eax\n jb 1b\n"
		: : : "eax", "ecx", "xmm0", "xmm1", "xmm2", "cc");
}

/* The same with what AVX-512 adds: registers 16 to 31, their upper halves, masks. */
static void masks(void)
{
	if (!__builtin_cpu_supports("avx512bw"))
		return vectors();
	__asm__ volatile(
		"mov $1, %%eax\n vpbroadcastd %%eax, %%zmm16\n vpxord %%zmm17, %%zmm17, %%zmm17\n mov $0x15, %%eax\n vpbroadcastb %%eax, %%zmm18\n"
		"vpxord %%zmm5, %%zmm5, %%zmm5\n kxorq %%k2, %%k2, %%k2\n xor %%ecx, %%ecx\n mov $700000000, %%edx\n"
		"1: vpaddd %%zmm16, %%zmm17, %%zmm17\n vpaddb %%zmm16, %%zmm5, %%zmm5\n vptestmb %%zmm18, %%zmm17, %%k1\n kmovq %%k1, %%rax\n"
		"test %%rax, %%rax\n jz 2f\n inc %%ecx\n"
		"2: vptestmb %%zmm18, %%zmm5, %%k3\n kxorq %%k3, %%k2, %%k2\n kmovq %%k2, %%rax\n bt $44, %%rax\n jc 3f\n dec %%ecx\n"
		"3: dec %%edx\n jnz 1b\n"
		: : : "rax", "ecx", "edx", "cc");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "probed"))
		probed();
	else if (!strcmp(what, "patched"))
		patched();
	else if (!strcmp(what, "wrgsbase"))
		wrgsbase();
	else if (!strcmp(what, "jit"))
		jit();
	else if (!strcmp(what, "selfmodifying"))
		selfmodifying();
	else if (!strcmp(what, "mappings"))
		mappings();
	else if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "clocks"))
		clocks();
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "vectors"))
		vectors();
	else if (!strcmp(what, "masks"))
		masks();
	else if (!strcmp(what, "where"))
		return print_places();
	else
		return 2;
	return 0;
}
