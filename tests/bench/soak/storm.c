/* A storm of processes and libraries at a set rate: exec, fork without exec, dlopen and dlclose of ever new files.
   storm RATE SECONDS LIBRARY...: about RATE turns a second for so long, one of each a turn. Prints the turns. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile unsigned sink;

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const double rate = atof(argv[1]), end = now() + atof(argv[2]);
  long turns = 0;
  for (; now() < end; ++turns) {
    pid_t one = fork();
    if (one == 0) {
      execl("/bin/true", "true", (char *)0);
      _exit(127);
    }
    pid_t two = fork();
    if (two == 0) {
      for (unsigned i = 0; i < 20000; ++i) sink += i % 7;
      _exit(0);
    }
    void *library = dlopen(argv[3 + turns % (argc - 3)], RTLD_NOW);
    if (library) {
      unsigned (*work)(unsigned) = (unsigned (*)(unsigned))dlsym(library, "work");
      if (work) sink += work(20000);
      dlclose(library);
    }
    for (int left = 2; left > 0;) left -= wait(NULL) > 0;
    usleep((useconds_t)(1e6 / rate));
  }
  printf("%ld\n", turns);
  return 0;
}
