#include "random_code.h"

#include <cstring>

#include "random_insn.h"

namespace brink::walk_test {
namespace {

constexpr size_t kIntegerPool = 6000, kVectorPool = 4000;

void Append(std::vector<uint8_t>* out, std::initializer_list<int> bytes) {
  for (int byte : bytes) out->push_back(static_cast<uint8_t>(byte));
}

void Append32(std::vector<uint8_t>* out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<uint8_t>(value >> 8 * i));
}

}  // namespace

CodeMaker::CodeMaker(uint64_t seed) : maker_(seed) {
  for (auto [family, count] : {std::pair{DiffOptions::Family::kInteger, kIntegerPool}, {DiffOptions::Family::kVector, kVectorPool}}) {
    InsnSource source(seed, family);
    for (size_t i = 0; i < count;) {
      RandomInsn insn = source.Next();
      // Random addresses fault: most walks would be over at once.
      if (insn.memory >= 0 && !maker_.OneIn(8)) continue;
      ++i;
      pool_.emplace_back(insn.bytes, insn.bytes + insn.decoded.length);
    }
  }
}

// A register gets a pointer again: random results lose them soon.
void CodeMaker::Anchor(std::vector<uint8_t>* out) {
  int reg = maker_.OneIn(3) ? 4 : static_cast<int>(maker_.Random() % 16);  // the stack pointer above all
  Append(out, {0x48 | (reg >= 8), 0xc7, 0xc0 | (reg & 7)});
  Append32(out, static_cast<uint32_t>(maker_.DataPointer()));
}

void CodeMaker::Branch(std::vector<uint8_t>* out, const std::vector<size_t>& starts) {
  size_t here = out->size();
  // Backwards to an instruction, forwards to wherever; now and then into the middle of one.
  int64_t to = starts.empty() || maker_.OneIn(2) ? static_cast<int64_t>(here + 5 + maker_.Random() % 200) : static_cast<int64_t>(starts[maker_.Random() % starts.size()]);
  if (maker_.OneIn(50)) to = static_cast<int64_t>(maker_.Random() % (kCodePages * 4096));
  auto relative = [&](size_t length) { Append32(out, static_cast<uint32_t>(to - static_cast<int64_t>(here + length))); };
  switch (maker_.Random() % 12) {
    case 0: out->push_back(0xe8); relative(5); break;
    case 1: out->push_back(0xe9); relative(5); break;
    case 2: out->push_back(0xc3); break;
    case 3: Append(out, {0xc2, static_cast<int>(maker_.Random() % 24), 0}); break;
    case 4: Append(out, {0xff, 0xd0 | static_cast<int>(maker_.Random() % 8)}); break;          // call register
    case 5: Append(out, {0xff, 0x20 | static_cast<int>(maker_.Random() % 4)}); break;          // jump through memory
    case 6: Append(out, {0xe0 + static_cast<int>(maker_.Random() % 4), static_cast<int>(maker_.Random() % 16)}); break;  // loop, jrcxz
    default: Append(out, {0x0f, 0x80 | static_cast<int>(maker_.Random() % 16)}); relative(6); break;
  }
}

void CodeMaker::Fill(std::span<uint8_t> code) {
  std::vector<uint8_t> out;
  std::vector<size_t> starts;
  while (out.size() < code.size()) {
    starts.push_back(out.size());
    uint64_t pick = maker_.Random() % 100;
    if (pick < 12) {
      Anchor(&out);
    } else if (pick < 26) {
      Branch(&out, starts);
    } else {
      // Two thirds integer code.
      const auto& insn = pick < 75 ? pool_[maker_.Random() % kIntegerPool] : pool_[kIntegerPool + maker_.Random() % kVectorPool];
      out.insert(out.end(), insn.begin(), insn.end());
    }
  }
  std::memcpy(code.data(), out.data(), code.size());
}

}  // namespace brink::walk_test
