#!/usr/bin/env bash
# Tutorial 4: control-flow integrity of a program in a container.
#
# A program that was taken over does what its code never says: returns that land behind no call, indirect calls into the
# middle of functions. `brink cfi replay` checks the branches of a recording against the program's own file.
# (`brink cfi run` watches live: docs/cfi.md.)
#
#   docs/tutorials/control-flow.sh [FOLDER]
#
# Needs root: for the container (a pid and mount namespace) and for recording.
set -euo pipefail
brink=${BRINK:-brink}
folder=${1:-$(mktemp -d)}
command -v gcc > /dev/null || { echo "needs gcc"; exit 77; }
mkdir -p "$folder" && cd "$folder"

# A server that calls handlers through a table. With an argument, each round ends in what an overflow on the stack does: a
# return that goes where no call came from.
cat > server.c << 'C'
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) long get(long x) { return x % 7 + 1; }
__attribute__((noinline)) long put(long x) { return x / 3 + 2; }
long (*volatile handlers[2])(long) = {get, put};
static long now_ms(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
__attribute__((noinline)) static void hijack(void) {
  __asm__ volatile("sub $128, %%rsp\n lea 1f(%%rip), %%rax\n push %%rax\n ret\n 1: add $128, %%rsp" ::: "rax", "memory");
}
int main(int argc, char **argv) {
  long sum = 0;
  for (long end = now_ms() + 3000; now_ms() < end;)
    for (int i = 0; i < 100000; i++) {
      sum += handlers[i & 1](sum + i);
      if (argc > 1) hijack();
    }
  printf("%ld\n", sum & 1);
  return 0;
}
C
gcc -g -O1 server.c -o server

# 1. The healthy server in a container of its own, recorded from outside, judged: nothing above low. Status 4 would say otherwise.
"$brink" record -q -F 1000 --walk-share 2 -o healthy.data -- unshare --pid --fork --mount-proc ./server
"$brink" cfi replay --fail-on medium healthy.data

# 2. The hijacked one. Each broken edge comes with the branches around it.
"$brink" record -q -F 1000 --walk-share 2 -o hijacked.data -- unshare --pid --fork --mount-proc ./server now
status=0
"$brink" cfi replay --fail-on medium hijacked.data > alarms.txt || status=$?
head -12 alarms.txt
[ $status -eq 4 ]

# 3. One alarm in words: what happened, which rule, how sure, where to look.
"$brink" cfi replay --json hijacked.data | head -1 > alarm.json
"$brink" cfi explain alarm.json
