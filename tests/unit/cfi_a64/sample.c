/* Compiled for arm64 with landing pads and signed returns, for the facts of it. Never run. */
typedef int (*handler)(int);

int global;

__attribute__((noinline)) int callee(int x) { return x * 3 + global; }
__attribute__((noinline)) static int in_table(int x) { return callee(x) + 1; }
__attribute__((noinline)) static int formed(int x) { return callee(x) + 2; }
__attribute__((noinline)) int never_taken(int x) { return callee(x) ^ 5; }

handler table[] = {in_table};

__attribute__((noinline)) int takes(handler f, int x) { return f(x) + 7; }

/* What every C library has for signal handlers to return to. */
__attribute__((naked, target("branch-protection=none"))) void restorer(void) { __asm__("mov x8, #139\n\tsvc #0"); }

/* The end of a C library's longjmp, in a function that has no name: the guard in x3 is taken off x30 and the stack pointer. */
__asm__(".text\n.balign 4\n.cfi_startproc\nbti c\neor x30, x4, x3\nldr x4, [x0, #104]\neor x5, x4, x3\nmov sp, x5\nbr x30\n.cfi_endproc\n"
        /* The same without the stack: no longjmp. */
        ".cfi_startproc\nbti c\neor x30, x4, x3\nnop\nnop\nnop\nbr x30\n.cfi_endproc\n");

void _start(void) {
  global = takes(formed, never_taken(2)) + table[global & 0](3);
  for (;;) __asm__ volatile("wfi");
}
