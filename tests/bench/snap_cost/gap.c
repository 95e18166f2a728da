/*
 * Work for gap.py: "gap fork|exec COUNT" starts COUNT programs one after the other, each of which calls gap_function at once and then
 * each 50 us, 1,000 times. The parent forks them itself (fork), or they execute this file (exec).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 1000
#define SPACING_NS 50000

volatile int gap_sink;

__attribute__((noinline)) int gap_function(int number)
{
	gap_sink = number;
	return number + 1;
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void work(void)
{
	for (int i = 0; i < CALLS; i++) {
		/* The call is part of the time: a forked program has its parent's breakpoint, which traps unmet. */
		const long end = now_ns() + SPACING_NS;

		gap_sink = gap_function(i);
		while (now_ns() < end)
			;
	}
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;

	if (!count) {
		work();
		return 0;
	}
	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child == 0) {
			if (!strcmp(argv[1], "exec"))
				execl("/proc/self/exe", "gap", (char *)0);
			work();
			_exit(0);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}
