/* Programs that attack themselves: a small server that answers some honest requests first, and one bad one last. */
#ifndef ATTACK_H
#define ATTACK_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t word;

/* What every attack wants: one page becomes executable. `exit42` ends the program behind it. */
extern char *page;
extern word page_size;

/* Pieces of code in the middle of functions, and functions (gadgets.c). */
extern char g_pop_rdi[], g_pop_rsi[], g_pop_rdx[], g_pop_rax[], g_syscall[], g_nops[], g_leave[], g_hidden[];
extern char cp_pop_rdi[], cp_pop_rsi[], cp_pop_rdx[], cp_pop_rax[], cp_syscall[], cp_exit[];
extern char jop_dispatch[], jop_rdi[], jop_rsi[], jop_rdx[], jop_rax[], jop_syscall[], jop_exit[];
void exit42(void);
void jop_start(word *table);
void win(void);         /* does it, and ends the program */
void win_returns(void); /* does it, and returns */
extern char win_middle[]; /* behind the prologue of an assembler function that does it and returns */

/* Takes one request: reads it from `fd` into a buffer on the stack that is too small. */
long serve(int fd);
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
