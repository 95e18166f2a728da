/* Runs in arm64 guests to be recorded: conditions, direct and indirect calls, a recursion, a jump table. Links nothing. */
#include <stdio.h>
#include <stdlib.h>

static unsigned state = 1;

static unsigned draw(void) { return state = state * 1103515245u + 12345u; }

__attribute__((noinline)) unsigned sieve(unsigned n) {
  static unsigned char marks[4096];
  unsigned count = 0;
  for (unsigned i = 0; i < n; ++i) marks[i] = 0;
  for (unsigned i = 2; i < n; ++i) {
    if (marks[i]) continue;
    ++count;
    for (unsigned j = i + i; j < n; j += i) marks[j] = 1;
  }
  return count;
}

__attribute__((noinline)) unsigned ackermann(unsigned m, unsigned n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }

__attribute__((noinline)) unsigned choose(unsigned x) {
  switch (x % 8) {
    case 0: return x * 3;
    case 1: return x ^ 0x55;
    case 2: return x / 7;
    case 3: return draw();
    case 4: return x << 3;
    case 5: return ~x;
    case 6: return x % 1009;
    default: return x + 1;
  }
}

static int compare(const void *a, const void *b) { return *(const unsigned *)a < *(const unsigned *)b ? -1 : *(const unsigned *)a > *(const unsigned *)b; }

__attribute__((noinline)) unsigned sorted(void) {
  unsigned values[200];
  for (int i = 0; i < 200; ++i) values[i] = draw() >> 16;
  qsort(values, 200, sizeof values[0], compare);
  return values[7];
}

int main(int argc, char **argv) {
  unsigned long sum = 0;
  const int rounds = argc > 1 ? atoi(argv[1]) : 100;
  for (int i = 0; i < rounds; ++i) {
    sum += sieve(2000) + ackermann(2, 5) + sorted();
    for (unsigned j = 0; j < 500; ++j) sum += choose(j ^ (unsigned)sum);
  }
  printf("%lu\n", sum);
  return 0;
}
