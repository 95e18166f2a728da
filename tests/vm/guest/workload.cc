#include "workload.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "base/noinline.h"

namespace brink::guest {
namespace {

using Step = unsigned (*)(unsigned);

__attribute__((noinline)) unsigned Odd(unsigned x) { return x * 2654435761u; }
__attribute__((noinline)) unsigned Even(unsigned x) { return (x >> 3) ^ (x << 5); }
__attribute__((noinline)) unsigned Deep(unsigned x) { return x < 2 ? x : Deep(x - 1) + Odd(x); }

__attribute__((noinline)) unsigned Choose(unsigned x) {
  switch (x % 7) {
    case 0: return Odd(x);
    case 1: return x + 17;
    case 2: return Even(x);
    case 3: return x ^ 0x5bd1e995;
    case 4: return Deep(x % 5);
    case 5: return x - 99;
    default: return ~x;
  }
}

constexpr Step kSteps[] = {Odd, Even, Choose};

}  // namespace

// The label is named in WorkloadEnd; a second copy of the function would define it twice.
BRINK_NOINLINE void Workload(unsigned seed, char* memory) {
  unsigned x = seed;
  for (int round = 0; round < 12; round++) {
    for (int i = 0; i < 4; i++) x = kSteps[x % 3](x + i);
    if (round < kWorkloadPages) memory[round * 4096] = static_cast<char>(x);
    void* to = memory + 64;
    const void* from = memory + 512;
    size_t count = x % 9;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    x += Deep(x % 6);
  }
  long result = SYS_getppid;
  asm volatile(".globl brink_workload_end\nbrink_workload_end:\n\tsyscall"
               : "+a"(result) : "D"(x) : "rcx", "r11", "memory");
}

extern "C" const char brink_workload_end[];
uint64_t WorkloadEnd() { return reinterpret_cast<uint64_t>(brink_workload_end); }

char* FreshMemory() {
  void* memory = mmap(nullptr, kWorkloadPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BRINK_CHECK(memory != MAP_FAILED);
  return static_cast<char*>(memory);
}

void Churn(const std::atomic<bool>& stop) {
  for (unsigned seed = 0; !stop; seed++) {
    char* memory = FreshMemory();
    for (int i = 0; i < 20; i++) Workload(seed * 20 + i, memory);
    munmap(memory, kWorkloadPages * 4096);
  }
}

}  // namespace brink::guest
