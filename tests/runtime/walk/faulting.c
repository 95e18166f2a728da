/*
 * A target that faults on purpose: it stores to a page that it may only read, stores to such a page across a line, and
 * jumps into data. Prints the ranges of code that never runs although it lies right behind the fault, then keeps busy.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static sigjmp_buf back;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/*
 * A slow loop to be sampled in, short enough to be walked to its end; then the access that faults; the loop behind it is
 * the one that nobody ever enters.
 */
#define FAULTING(name, access)                                                                        \
	extern char name##_after[], name##_end[];                                                     \
	__attribute__((noinline, naked)) static void name(void *at __attribute__((unused)))          \
	{                                                                                             \
		__asm__("mov $8, %%ecx\n mov $3, %%r8d\n1: .rept 20\n xor %%edx, %%edx\n mov $-1, %%rax\n div %%r8\n .endr\n" \
			" dec %%ecx\n jnz 1b\n" access                            \
			"\n" #name "_after: jmp 2f\n nop\n2: jmp " #name "_after\n" #name "_end: ret" ::: "memory"); \
	}
FAULTING(store, "movl $1, (%%rdi)")
FAULTING(split_store, "movq $1, -4(%%rdi)")
FAULTING(push, "mov %%rdi, %%rsp\n push %%rcx")
FAULTING(jump, "jmp *%%rdi")

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20000;
	char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char alternate[65536];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};

	memset(pages, 1, 3 * 4096);
	mprotect(pages + 4096, 4096, PROT_READ);
	memcpy(data, "\x90\xeb\xfd", 3);	/* nop; jmp to itself */
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	printf("%p %p\n%p %p\n%p %p\n%p %p\n%p %p\n", store_after, store_end, split_store_after, split_store_end, push_after, push_end,
	       jump_after, jump_end, data, data + 4096);
	fflush(stdout);
	for (long i = 0; i < rounds; i++) {
		if (sigsetjmp(back, 1))
			continue;
		switch (i & 3) {
		case 0:
			store(pages + 4096);
			break;
		case 1:
			split_store(pages + 4096);
			break;
		case 2:
			push(pages + 8192);
			break;
		default:
			jump(data);
		}
	}
	return 0;
}
