/*
 * The program that tools/quickstart records when it is given none. Its time goes to one branch that no predictor can
 * guess (line marked HARD), one loop whose trip count is always the same, and one indirect call with three targets:
 * what a branch recording should find.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUES 65536
#define ROUNDS 2500

static uint32_t values[VALUES];

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

__attribute__((noinline)) static uint64_t sum_large(const uint32_t *v, uint32_t limit)
{
	uint64_t sum = 0;

	for (int i = 0; i < VALUES; i++) {
		if (v[i] >= limit) /* HARD: half of the values, in random order */
			sum += v[i];
		else
			sum ^= sum >> 7;
	}
	return sum;
}

__attribute__((noinline)) static uint32_t mix_add(uint32_t x) { return x * 2654435761u + 1; }
__attribute__((noinline)) static uint32_t mix_xor(uint32_t x) { return x ^ x >> 15; }
__attribute__((noinline)) static uint32_t mix_rot(uint32_t x) { return x << 7 | x >> 25; }

__attribute__((noinline)) static uint32_t dispatch(uint32_t seed, int count)
{
	static uint32_t (*const mixers[])(uint32_t) = {mix_add, mix_xor, mix_rot, mix_add};

	for (int i = 0; i < count; i++)
		seed = mixers[seed & 3](seed);
	return seed;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	uint32_t state = 2463534242u;
	uint64_t total = 0;

	for (int i = 0; i < VALUES; i++)
		values[i] = next_random(&state);
	for (int round = 0; round < rounds; round++) {
		total += sum_large(values, 0x80000000u);
		total += dispatch((uint32_t)total, 20000);
	}
	printf("demo: %016llx\n", (unsigned long long)total);
	return 0;
}
