#include "support/walk_state.h"

#include <cstring>

namespace brink::walk_test {

uint64_t StateMaker::Value() {
  uint64_t r = Random();
  switch (Random() % 8) {
    case 0: return r % 9;
    case 1: return -(r % 9);
    case 2: return uint64_t{1} << (r & 63);
    case 3: return r;
    default: return DataPointer();
  }
}

void StateMaker::Data(std::span<uint8_t> data) {
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    uint64_t value = OneIn(3) ? Value() : OneIn(6) ? CodePointer() : Random();
    std::memcpy(data.data() + i, &value, 8);
  }
}

brink_walk_config StateMaker::Config() {
  brink_walk_config config{};
  config.depth = OneIn(4) ? 1 + Random() % 8 : 32;
  config.max_steps = 1 + Random() % (OneIn(8) ? 600 : 120);
  config.kind_mask = OneIn(6) ? static_cast<uint32_t>(Random()) : BRINK_WALK_ALL_KINDS;
  return config;
}

void StateMaker::State(brink_walk* state, bool known) {
  auto unknown = [&]() -> uint64_t { return known || !OneIn(4) ? 0 : OneIn(3) ? ~uint64_t{0} : OneIn(2) ? Random() & Random() : 0xffull << (Random() & 56); };
  auto set = [&](int reg, uint64_t value) {
    uint64_t unk = unknown();
    state->reg[reg] = {value & ~unk, unk};
  };
  for (int i = 0; i < 16; ++i) set(i, Value());
  if (!OneIn(20)) state->reg[4] = {DataPointer(), 0};
  state->reg[BRINK_WREG_IP] = {CodePointer(), 0};
  for (int i = BRINK_WREG_FS; i <= BRINK_WREG_GS; ++i) {
    if (known || OneIn(2)) state->reg[i] = {DataPointer(), 0};
  }
  for (int i = 0; i < 8; ++i) set(BRINK_WREG_K0 + i, Random());
  state->flags = 0x202 | (static_cast<uint32_t>(Random()) & (kArithmeticFlags | (OneIn(8) ? kDirectionFlag : 0)));
  if (!known) {
    state->flags_known = static_cast<uint32_t>(Random() | Random()) & kArithmeticFlags;
    state->flags &= state->flags_known | ~kArithmeticFlags;
  }
  for (int i = 0; i < 32; ++i) {
    state->vknown[i] = known || !OneIn(2) ? ~uint64_t{0} : OneIn(3) ? 0 : Random();
    for (int j = 0; j < 64; ++j) state->vreg[i].data[j] = state->vknown[i] >> j & 1 ? static_cast<uint8_t>(OneIn(4) ? 0 : Random()) : 0;
  }
  state->proc = {};
  if (OneIn(3)) {
    state->proc.nr_ranges = 2;
    state->proc.range[0] = {.start = kDataBase + 4096, .end = kDataBase + 2 * 4096, .kind = BRINK_RANGE_UNKNOWN, .reserved = 0};
    state->proc.range[1] = {.start = kDataBase + 3 * 4096, .end = kDataBase + 4 * 4096, .kind = BRINK_RANGE_DEVICE, .reserved = 0};
  }
}

WalkByte ByteOf(const brink_walk& state, uint64_t address) {
  for (const brink_walk_line& line : state.mem) {
    if (line.tag != ((address & ~uint64_t{63}) | state.gen)) continue;
    uint32_t at = address & 63;
    return {.held = true, .known = (line.known >> at & 1) != 0, .dirty = (line.dirty >> at & 1) != 0, .value = line.data[at]};
  }
  return {};
}

}  // namespace brink::walk_test
