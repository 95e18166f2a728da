/* A function in a shared library, reached through the procedure linkage table (A16). */
int probe_me(int x)
{
	return x + 1;
}
