/* Programs that attack themselves: a small server that answers some honest requests first, and one bad one last. */
#ifndef ATTACK_H
#define ATTACK_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t word;

/* What every attack wants: one page becomes executable. `exit42` ends the program behind it. */
extern char *page;
extern word page_size;

/*
 * Pieces of code in the middle of functions, and functions (gadgets_x86.c, gadgets_a64.c). Those that are named after a
 * register take the next word into it (on A64 into that of the same argument, or of the call's number) and go where the
 * word behind it says.
 */
extern char g_tail[], g_pop_rdi[], g_pop_rsi[], g_pop_rdx[], g_pop_rax[], g_syscall[], g_nops[], g_leave[], g_hidden[];
extern char cp_pop_rdi[], cp_pop_rsi[], cp_pop_rdx[], cp_pop_rax[], cp_syscall[], cp_exit[];
extern char jop_dispatch[], jop_rdi[], jop_rsi[], jop_rdx[], jop_rax[], jop_syscall[], jop_exit[];
void exit42(void);
void jop_start(word *table);
void win(void);         /* does it, and ends the program */
void win_returns(void); /* does it, and returns */
extern char win_middle[]; /* behind the prologue of an assembler function that does it and returns */

/* On A64 a piece that takes no word leaves out one all the same: the frame pointer's. */
#ifdef __aarch64__
#define FRAME_WORD(words, n) ((words)[(n)++] = 0)
#else
#define FRAME_WORD(words, n) ((void)0)
#endif

/* What is the machine's own (machine_x86.c, machine_a64.c). Code that ends the program with `status`, at `to`. */
void exit_code(char *to, int status);
/* A signal's frame that no signal made, which makes the page executable and goes on at exit42 on the stack `stack`. Words. */
size_t forge_frame(word *to, word *stack);
/* Where handlers return to. */
word restorer(void);
/* Words behind win_middle or a piece: what is taken first, and where it goes then. */
void lead_to_exit(word *stack);
/* A jump buffer that was filled by setjmp() leads to `target` on the stack `stack` now, mangled as the library does. */
void forge_jump(void *buffer, word target, word *stack);
/* A jump of the program itself, and what turns it elsewhere. */
void patch_me(void);
extern char patch_jump[];
void turn_jump(word target);

/* Takes one request: reads it from `fd` into a buffer on the stack that is too small. On A64 that reaches the frame of the
   caller, whose return is the bad one then. */
long serve(int fd);
#ifdef __aarch64__
long serve_frame(int fd);
#define SERVE serve_frame
#else
#define SERVE serve
#endif
/* A function that writes `words` over its own return slot and what lies above, and returns. */
void corrupt(const word *words, size_t n);

/* Fills `words` with a chain that makes the page executable by single steps; returns its length. */
size_t chain(word *words, int call_preceded, int nops, int padding);

/* Sends a request of `n` words over the return slot of serve(); 0 words: an honest one. Then serves it. */
void request(const word *words, size_t n);
/* Honest requests and calls of everything that the attack will use, so that nothing is new to a watcher. */
void warm_up(void (*also)(void));
/* Right before the attack: stops for a tracer where ATTACK_STOP is set. */
void ready(void);

#endif
