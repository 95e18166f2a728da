/* One case: up to two instruction words and the state before them; the state after them. Shared with runner.c. */
#ifndef BRINK_TESTS_A64_CASE_H_
#define BRINK_TESTS_A64_CASE_H_

#define A64_CODE 0x30000000ul	/* all breakpoints but for the words of the cases */
#define A64_CODE_SIZE 0x20000ul
#define A64_SLOTS (A64_CODE + 0x10000)	/* one case in sixteen bytes */
#define A64_BATCH 1024
#define A64_DATA 0x20000000ul	/* one page; what is around it is not mapped */
#define A64_PAGE 4096
#define A64_WINDOW (A64_DATA + 1536)
#define A64_WINDOW_SIZE 1024

struct a64_state {
	unsigned long x[31];
	unsigned long sp;
	unsigned long pc;
	unsigned long pstate;
	unsigned long tpidr;
	unsigned long signal;	/* that ended the case: 5 is the breakpoint behind the words */
	unsigned char v[32][16];
	unsigned char memory[A64_WINDOW_SIZE];
};

struct a64_input {
	unsigned int word[2];
	struct a64_state state;	/* pc and signal do not count */
};

#endif
