#include "native.h"

#include <sys/mman.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace brink::walk_test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAltStack = 1 << 16;
sigjmp_buf g_out;

void OnSignal(int) { siglongjmp(g_out, 1); }

// Data page, by offset: gpr in 0, flags 128, our rsp 136, gpr out 256, flags out 384.
constexpr int kGpr = 0, kFlags = 128, kOurRsp = 136, kGprOut = 256, kFlagsOut = 384;

class Emitter {
 public:
  explicit Emitter(uint8_t* code) : start_(code), at_(code) {}
  void Bytes(std::initializer_list<uint8_t> bytes) {
    for (uint8_t b : bytes) *at_++ = b;
  }
  void Append(std::span<const uint8_t> bytes) {
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  // OP reg, [rip + data page + offset]; opcode 8b loads, 89 stores.
  void Move(uint8_t opcode, int reg, int offset) {
    Bytes({static_cast<uint8_t>(0x48 | (reg >> 3) << 2), opcode, static_cast<uint8_t>(0x05 | (reg & 7) << 3)});
    Relative(offset);
  }
  void Relative(int offset) {
    const int32_t disp = static_cast<int32_t>(start_ + kPage + offset - (at_ + 4));
    std::memcpy(at_, &disp, 4);
    at_ += 4;
  }

 private:
  uint8_t* start_;
  uint8_t* at_;
};

void Build(uint8_t* code, std::span<const uint8_t> instruction) {
  Emitter e(code);
  e.Bytes({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbx, rbp, r12 .. r15
  e.Move(0x89, 4, kOurRsp);
  e.Bytes({0xff, 0x35});  // push [flags]
  e.Relative(kFlags);
  e.Bytes({0x9d});  // popfq
  for (int reg : {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 4}) e.Move(0x8b, reg, kGpr + 8 * reg);
  e.Append(instruction);
  for (int reg = 0; reg < 16; ++reg) e.Move(0x89, reg, kGprOut + 8 * reg);
  e.Move(0x8b, 4, kOurRsp);
  e.Bytes({0x9c, 0x8f, 0x05});  // pushfq; pop [flags]
  e.Relative(kFlagsOut);
  e.Bytes({0xfc});              // cld
  e.Bytes({0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3});
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) void LoadVectors(const CpuState* s) {
#define L(n) "vmovdqu64 " #n "*64(%0), %%zmm" #n "\n"
#define K(n) "kmovq " #n "*8(%1), %%k" #n "\n"
  asm volatile(L(0) L(1) L(2) L(3) L(4) L(5) L(6) L(7) L(8) L(9) L(10) L(11) L(12) L(13) L(14) L(15)
               L(16) L(17) L(18) L(19) L(20) L(21) L(22) L(23) L(24) L(25) L(26) L(27) L(28) L(29) L(30) L(31)
               K(0) K(1) K(2) K(3) K(4) K(5) K(6) K(7)
               :: "r"(s->zmm), "r"(s->k) : "memory");
#undef L
#undef K
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) void StoreVectors(CpuState* s) {
#define S(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%0)\n"
#define K(n) "kmovq %%k" #n ", " #n "*8(%1)\n"
  asm volatile(S(0) S(1) S(2) S(3) S(4) S(5) S(6) S(7) S(8) S(9) S(10) S(11) S(12) S(13) S(14) S(15)
               S(16) S(17) S(18) S(19) S(20) S(21) S(22) S(23) S(24) S(25) S(26) S(27) S(28) S(29) S(30) S(31)
               K(0) K(1) K(2) K(3) K(4) K(5) K(6) K(7) "vzeroupper\n"
               :: "r"(s->zmm), "r"(s->k) : "memory");
#undef S
#undef K
}

}  // namespace

bool HasAvx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

Native::Native() {
  void* page = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) std::abort();
  code_ = static_cast<uint8_t*>(page);
  alt_stack_ = std::malloc(kAltStack);
  stack_t stack{};
  stack.ss_sp = alt_stack_;
  stack.ss_size = kAltStack;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int sig : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigaction(sig, &action, nullptr);
}

Native::~Native() {
  munmap(code_, 2 * kPage);
  stack_t off{};
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
  std::free(alt_stack_);
}

__attribute__((noinline)) static bool Call(uint8_t* code, CpuState* state, bool vectors) {
  if (vectors) LoadVectors(state);
  asm volatile("call *%0" ::"r"(code) : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
  if (vectors) StoreVectors(state);
  return true;
}

bool Native::Run(std::span<const uint8_t> instruction, CpuState* state, bool vectors) {
  Build(code_, instruction);
  uint8_t* data = code_ + kPage;
  std::memcpy(data + kGpr, state->gpr, sizeof state->gpr);
  std::memcpy(data + kFlags, &state->flags, 8);
  if (sigsetjmp(g_out, 0) != 0) {
    asm volatile("cld");
    return false;
  }
  Call(code_, state, vectors);
  std::memcpy(state->gpr, data + kGprOut, sizeof state->gpr);
  std::memcpy(&state->flags, data + kFlagsOut, 8);
  return true;
}

}  // namespace brink::walk_test
