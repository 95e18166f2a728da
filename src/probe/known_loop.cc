#include "probe/known_loop.h"

#include "base/noinline.h"

// Global labels, so that C++ can name each branch and each target.
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 6
    .globl brink_known_loop
    .hidden brink_known_loop, brink_known_cond, brink_known_skip, brink_known_call, brink_known_after
    .hidden brink_known_exit, brink_known_back, brink_known_leaf, brink_known_end, brink_known_top
    .globl brink_known_cond, brink_known_skip, brink_known_call, brink_known_after
    .globl brink_known_exit, brink_known_back, brink_known_leaf, brink_known_end, brink_known_top
    .type brink_known_loop, @function
brink_known_loop:
    movl $0x9e3779b9, %eax
brink_known_top:
    movl %eax, %ecx
    shll $13, %ecx
    xorl %ecx, %eax
    movl %eax, %ecx
    shrl $17, %ecx
    xorl %ecx, %eax
    movl %eax, %ecx
    shll $5, %ecx
    xorl %ecx, %eax
    testl $0x100, %eax
brink_known_cond:
    je brink_known_skip
    nop
brink_known_skip:
brink_known_call:
    call brink_known_leaf
brink_known_after:
    decq %rdi
brink_known_back:
    jne brink_known_top
brink_known_exit:
    ret
brink_known_leaf:
    ret
brink_known_end:
    .size brink_known_loop, . - brink_known_loop
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 6
    .globl brink_known_loop
    .hidden brink_known_loop, brink_known_cond, brink_known_skip, brink_known_call, brink_known_after
    .hidden brink_known_exit, brink_known_back, brink_known_leaf, brink_known_end, brink_known_top
    .globl brink_known_cond, brink_known_skip, brink_known_call, brink_known_after
    .globl brink_known_exit, brink_known_back, brink_known_leaf, brink_known_end, brink_known_top
    .type brink_known_loop, %function
brink_known_loop:
    stp x29, x30, [sp, #-16]!
    mov w9, #0x79b9
    movk w9, #0x9e37, lsl #16
brink_known_top:
    eor w9, w9, w9, lsl #13
    eor w9, w9, w9, lsr #17
    eor w9, w9, w9, lsl #5
brink_known_cond:
    tbz w9, #8, brink_known_skip
    nop
brink_known_skip:
brink_known_call:
    bl brink_known_leaf
brink_known_after:
    subs x0, x0, #1
brink_known_back:
    b.ne brink_known_top
    ldp x29, x30, [sp], #16
brink_known_exit:
    ret
brink_known_leaf:
    ret
brink_known_end:
    .size brink_known_loop, . - brink_known_loop
)");
#else
#error "the known loop needs a few lines of assembly for this architecture"
#endif

extern "C" {
void brink_known_loop(uint64_t iterations);
extern const char brink_known_cond[], brink_known_skip[], brink_known_call[], brink_known_after[], brink_known_back[],
    brink_known_top[], brink_known_leaf[], brink_known_exit[], brink_known_end[];
}

namespace brink {
namespace {

uint64_t At(const char* label) { return reinterpret_cast<uint64_t>(label); }

}  // namespace

void RunKnownLoop(uint64_t iterations) { brink_known_loop(iterations); }

bool IsKnownBranch(const brink_branch& entry, Kind* kind) {
  const struct {
    const char *from, *to;
    Kind kind;
  } branches[] = {
      {brink_known_cond, brink_known_skip, Kind::kCond},
      {brink_known_call, brink_known_leaf, Kind::kCall},
      {brink_known_leaf, brink_known_after, Kind::kRet},
      {brink_known_back, brink_known_top, Kind::kCond},
  };
  for (const auto& branch : branches) {
    if (entry.from != At(branch.from) || entry.to != At(branch.to)) continue;
    if (kind) *kind = branch.kind;
    return true;
  }
  return false;
}

bool FromKnownLoop(const brink_branch& entry) { return entry.from >= At(brink_known_top) && entry.from < At(brink_known_end) && entry.from != At(brink_known_exit); }

extern "C" BRINK_NOINLINE int brink_probe_target(int value) {
  asm volatile("" : "+r"(value));
  return value + 1;
}

}  // namespace brink
