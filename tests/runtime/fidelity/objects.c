/*
 * Calls that cross three shared objects: the program calls the first, which calls the second, which calls the third,
 * which calls back. Compiled once for each (OBJECT 0 is the program), so that each has a procedure linkage table.
 */
#include <stdlib.h>

unsigned long first_object(unsigned long n, unsigned long (*back)(unsigned long));
unsigned long second_object(unsigned long n, unsigned long (*back)(unsigned long));
unsigned long third_object(unsigned long n, unsigned long (*back)(unsigned long));

#if OBJECT == 1
unsigned long first_object(unsigned long n, unsigned long (*back)(unsigned long))
{
	return n & 3 ? second_object(n * 3, back) + 1 : second_object(n >> 1, back) ^ n;
}
#elif OBJECT == 2
unsigned long second_object(unsigned long n, unsigned long (*back)(unsigned long))
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n % 5 + 1; i++)
		sum += third_object(n + i, back);
	return sum;
}
#elif OBJECT == 3
unsigned long third_object(unsigned long n, unsigned long (*back)(unsigned long))
{
	return n % 7 ? back(n) : n / 7;
}
#else
static volatile unsigned long sink;

static unsigned long back(unsigned long n)
{
	return n & 1 ? n * 5 + 1 : labs((long)n) >> 1;
}

int main(void)
{
	for (unsigned long i = 0; i < 100000000ul; i++)
		sink += first_object(i, back);
	return 0;
}
#endif
