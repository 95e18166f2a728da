#!/usr/bin/env bash
# Tutorial 3: why was my thread late?
#
# `brink latency` measures wake-up latency as cyclictest does, with its options; with --blame it also records who was on
# the CPU between the deadline and the wake-up, and says for each spike what the time was spent on.
#
#   docs/tutorials/late-thread.sh [FOLDER]
#
# Needs root.
set -euo pipefail
brink=${BRINK:-brink}
folder=${1:-$(mktemp -d)}
command -v gcc > /dev/null || { echo "needs gcc"; exit 77; }
mkdir -p "$folder" && cd "$folder"

# Something that gets in the way: busy loops at a real-time priority above the measuring thread's, for 10 ms every now and then.
cat > hog.c << 'C'
#include <sched.h>
#include <time.h>
static long long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
int main(void) {
  struct sched_param high = {.sched_priority = 90};
  sched_setscheduler(0, SCHED_FIFO, &high);
  long long end = now() + 60000000000LL;
  while (now() < end) {
    long long until = now() + 10000000;
    while (now() < until) {}
    struct timespec rest = {0, 190000000};
    nanosleep(&rest, 0);
  }
  return 0;
}
C
gcc -O1 hog.c -o hog
./hog & hog=$!
trap 'kill $hog 2> /dev/null || true' EXIT

# One measuring thread a CPU at FIFO 80 for four seconds; every sample above 2 ms is a spike and gets its reason.
"$brink" latency -S -p 80 -m -D 4 --blame --spike 2000 --save late.json | tee late.txt
grep -q hog late.txt
echo "the report names hog; all numbers are in $folder/late.json (brink latency report late.json)"
