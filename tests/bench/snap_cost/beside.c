/*
 * What a tracer costs a piece of work beside it, with far less noise than the machine has: for each "PID KIND COUNT BLOCKS" on
 * standard input this process does COUNT operations again and again, with the perf events of process PID on or off by turns
 * (off on on off: drift falls on both alike), and answers with a line of BLOCKS pairs, the CPU time of the work in ns, off and on.
 * The tracer itself goes on: its events are switched through duplicates of its descriptors (pidfd_getfd). PID 0: an event of our own
 * that never fires, for the noise.
 *
 * KIND: "spin" computes, "switch" hands a byte to and fro between two threads on the same CPU.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_EVENTS 256

static int events[MOST_EVENTS], event_count;
static int there[2], back[2];
static volatile int sink;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void switch_events(int on)
{
	for (int i = 0; i < event_count; i++)
		ioctl(events[i], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static void own_event(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY, .disabled = 1};
	/* The CPU's, as a sampler's are: one of the task would have to be switched with it. */
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)sysconf(_SC_NPROCESSORS_ONLN) - 1, -1, 0);

	if (fd >= 0)
		events[event_count++] = fd;
}

/* Duplicates of all perf events that the process holds. */
static void events_of(int pid)
{
	char folder[64], path[384], target[64];
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct dirent *entry;
	DIR *fds;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	fds = opendir(folder);
	while (fds && (entry = readdir(fds))) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = 0;
		if (strcmp(target, "anon_inode:[perf_event]") || event_count == MOST_EVENTS)
			continue;
		fd = (int)syscall(SYS_pidfd_getfd, process, atoi(entry->d_name), 0);
		if (fd >= 0)
			events[event_count++] = fd;
	}
	if (fds)
		closedir(fds);
	if (process >= 0)
		close(process);
}

static void *answer(void *unused)
{
	char byte;

	while (read(there[0], &byte, 1) == 1) {
		if (write(back[1], &byte, 1) != 1)
			break;
	}
	return unused;
}

static void work(const char *kind, long count)
{
	char byte = 0;

	for (long i = 0; i < count; i++) {
		if (strcmp(kind, "switch")) {
			for (int j = 0; j < 1000; j++)
				sink = j;
		} else if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) {
			exit(1);
		}
	}
}

static uint64_t window(const char *kind, long count, int on)
{
	uint64_t before;

	switch_events(on);
	work(kind, count / 50 + 1);
	before = cpu_ns();
	work(kind, count);
	return cpu_ns() - before;
}

int main(void)
{
	char kind[32];
	long count;
	int pid, blocks;
	cpu_set_t one;
	pthread_t thread;

	CPU_ZERO(&one);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pipe(there) || pipe(back) || pthread_create(&thread, 0, answer, 0))
		return 1;
	printf("%d\n", getpid());
	fflush(stdout);
	while (scanf("%d %31s %ld %d", &pid, kind, &count, &blocks) == 4) {
		event_count = 0;
		if (pid)
			events_of(pid);
		else
			own_event();
		printf("%d", event_count);
		for (int i = 0; i < blocks; i++) {
			uint64_t off = window(kind, count, 0), on = window(kind, count, 1);

			on += window(kind, count, 1);
			off += window(kind, count, 0);
			printf(" %llu %llu", (unsigned long long)off, (unsigned long long)on);
		}
		printf("\n");
		fflush(stdout);
		switch_events(1);
		for (int i = 0; i < event_count; i++)
			close(events[i]);
	}
	return 0;
}
