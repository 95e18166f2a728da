#!/usr/bin/env bash
# Tutorial 1: profile-guided optimisation on a machine without a PMU.
#
# Compilers lay code out better when they know which branches are taken. The usual way to know is hardware branch records
# (`perf record -b`), which most virtual machines hide. brink walks the program in eBPF instead and gets the same data.
#
#   docs/tutorials/pgo.sh [FOLDER]      everything is made in FOLDER (a temporary one without it)
#
# Needs clang-19, llvm-19 and the rights to record (root, or CAP_BPF and CAP_PERFMON).
set -euo pipefail
brink=${BRINK:-brink}
folder=${1:-$(mktemp -d)}
for tool in clang-19 llvm-profgen-19 llvm-profdata-19; do command -v $tool > /dev/null || { echo "needs $tool"; exit 77; }; done
mkdir -p "$folder" && cd "$folder"

# A program with a hot loop full of decisions: it counts words by a hash table, and most of them are seen again.
cat > words.c << 'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct word { char text[16]; long count; struct word *next; };
static struct word *table[4096];
static unsigned seed = 1;
static unsigned next_random(void) { seed = seed * 1103515245u + 12345u; return seed >> 16 & 0x7fff; }
static unsigned hash(const char *s) { unsigned h = 0; while (*s) h = h * 31 + (unsigned char)*s++; return h; }
static void fatal(const char *why) { fprintf(stderr, "%s\n", why); exit(1); }
__attribute__((noinline)) static struct word *find(const char *text) {
  unsigned slot = hash(text) % 4096;
  for (struct word *w = table[slot]; w; w = w->next)
    if (strcmp(w->text, text) == 0) return w;
  struct word *w = calloc(1, sizeof *w);
  if (!w) fatal("no memory");
  if (strlen(text) >= sizeof w->text) fatal("a word is too long");
  strcpy(w->text, text);
  w->next = table[slot];
  table[slot] = w;
  return w;
}
int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 20000000, most = 0;
  for (long i = 0; i < rounds; i++) {
    char text[16];
    unsigned r = next_random();
    text[0] = 'a' + r % 26, text[1] = 'a' + r / 26 % 26, text[2] = 0;
    struct word *w = find(text);
    if (++w->count > most) most = w->count;
  }
  printf("%ld\n", most);
}
C

# 1. Build with line tables: they tie the profile to the source. Two flags keep functions apart that the optimiser copies.
clang-19 -O2 -gline-tables-only -fdebug-info-for-profiling -funique-internal-linkage-names words.c -o words

# 2. Record. No counters, no breakpoints, no change of the program.
"$brink" record -q -F 2000 --walk-share 2 -o words.data -- ./words 30000000

# 3. Is it enough? `report --quality` compares two halves of the samples and says what was likely never seen.
"$brink" report -i words.data --quality -n 5

# 4. Make a profile for the compiler. perf script's text is not needed: brink writes addresses of the link itself.
"$brink" export -f profgen -i words.data -b words -o words.stacks
llvm-profgen-19 --perfscript=words.stacks --binary=words --output=words.prof
llvm-profdata-19 show --sample words.prof | head -12

# 5. Build again with it, and compare.
clang-19 -O2 -gline-tables-only -fdebug-info-for-profiling -funique-internal-linkage-names -fprofile-sample-use=words.prof words.c -o words.pgo
TIMEFORMAT='%U s of processor time'
for program in words words.pgo; do echo "$program:"; time ./$program 30000000 > $program.out; done
cmp words.out words.pgo.out
echo "the same result by both; the profile is $folder/words.prof"
