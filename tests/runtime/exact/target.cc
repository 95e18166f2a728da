// Programs that are followed by hop and step. What they print and their exit status must not depend on it.
//   work MS STATUS     computes, calls, makes threads and children for about MS, then exits with STATUS
//   calls N            N each of epoll_wait, recv, sigtimedwait and semtimedop with time-outs; prints how many ended by EINTR
//   check TURNS        looks at all that a tracer might disturb and prints what it sees
//   exit STATUS        exits with STATUS
//   exclusives N       N accesses to a word by exclusive load and store, where the machine has them
//   branches N         the loop whose branches exact_test.cc knows
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "target.h"

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "work") == 0) return Work(std::atoi(argv[2]), std::atoi(argv[3]));
  if (argc >= 3 && std::strcmp(argv[1], "calls") == 0) return Calls(std::atoi(argv[2]));
  if (argc >= 3 && std::strcmp(argv[1], "check") == 0) return Check(std::atoi(argv[2]));
  if (argc >= 3 && std::strcmp(argv[1], "exit") == 0) return std::atoi(argv[2]);
  if (argc >= 3 && std::strcmp(argv[1], "exclusives") == 0) return Exclusives(std::atoi(argv[2]));
  if (argc >= 3 && std::strcmp(argv[1], "branches") == 0) return Branches(std::atoi(argv[2]));
  std::fprintf(stderr, "usage: exact_target work|calls|check|branches ...\n");
  return 2;
}
