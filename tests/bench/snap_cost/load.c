/*
 * Work for run.py: a process that answers "KIND COUNT" on standard input with the CPU time of one operation in ns. Its own
 * CPU time, user and system, which is where a trigger's programs are charged.
 */
#include <linux/bpf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile long load_watched;
volatile int load_sink;

__attribute__((noinline)) int load_function(int number)
{
	load_sink = number;
	return number + 1;
}

/* A static probe load:probe(number), as <sys/sdt.h> would note it. */
__attribute__((noinline)) void load_probe(int number)
{
#if defined(__x86_64__)
	__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n"
			 ".asciz \"load\"\n.asciz \"probe\"\n.asciz \"-4@%0\"\n994: .balign 4\n.popsection\n"
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
			 ".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n"
			 : : "r"(number));
#endif
	load_sink = number;
}

static void handler(int signal)
{
	load_sink = signal;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void once(const char *kind, int i)
{
	if (!strcmp(kind, "syscall"))
		syscall(SYS_getppid);
	else if (!strcmp(kind, "function"))
		load_function(i);
	else if (!strcmp(kind, "probe"))
		load_probe(i);
	else if (!strcmp(kind, "signal"))
		raise(SIGUSR1);
	else if (!strcmp(kind, "watch"))
		load_watched = i;
	else if (!strcmp(kind, "spin"))
		for (int j = 0; j < 1000; j++)
			load_sink = j;
}

/* Children's time counts, and where the parent waits for them does not. */
static double processes(const char *kind, int count)
{
	uint64_t before = cpu_ns();
	uint64_t ns = 0;

	for (int i = 0; i < count; i++) {
		struct timespec spent;
		clockid_t clock;
		pid_t child = vfork();

		if (child == 0) {
			if (!strcmp(kind, "exec"))
				execl("/bin/true", "true", (char *)0);
			_exit(0);
		}
		siginfo_t info;
		waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
		if (!clock_getcpuclockid(child, &clock) && !clock_gettime(clock, &spent))
			ns += (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
		waitpid(child, 0, 0);
	}
	return (double)(ns + cpu_ns() - before) / count;
}

/* "empty": a program that does nothing, on sys_enter, for as long as this process lives. */
static int load_empty(void)
{
	struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0}, {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insn_cnt = 2, .insns = (uint64_t)code, .license = (uint64_t)"GPL"};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	union bpf_attr open = {.raw_tracepoint = {.name = (uint64_t)"sys_enter", .prog_fd = (uint32_t)fd}};
	int link = fd < 0 ? -1 : (int)syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &open, sizeof(open));

	if (fd >= 0)
		close(fd);
	return link;
}

int main(void)
{
	char kind[32];
	int count, empty = -1;

	signal(SIGUSR1, handler);
	printf("pid %d watched %p\n", getpid(), (void *)&load_watched);
	fflush(stdout);
	while (scanf("%31s %d", kind, &count) == 2) {
		double ns = 0;

		if (!strcmp(kind, "empty")) {
			/* 1: on, 0: off */
			if (empty >= 0)
				close(empty);
			empty = count ? load_empty() : -1;
			ns = count ? empty >= 0 : 1;
		} else if (!strcmp(kind, "exec") || !strcmp(kind, "exit")) {
			ns = processes(kind, count);
		} else {
			uint64_t before = cpu_ns();

			for (int i = 0; i < count; i++)
				once(kind, i);
			ns = (double)(cpu_ns() - before) / count;
		}
		printf("%.2f\n", ns);
		fflush(stdout);
	}
	return 0;
}
