#include "ranges.h"

namespace brink::guest {

RangeResult CheckRange(CodeReader& code, uint64_t from, uint64_t to) {
  RangeResult result;
  for (uint64_t at = from; at <= to; result.instructions++) {
    std::optional<Instruction> instruction = code.At(at);
    if (!instruction) return result;
    result.repeats |= instruction->repeats;
    if (at == to) {
      result.straight = true;
      result.instructions++;
      return result;
    }
    if (!instruction->falls_through) return result;
    at += instruction->length;
  }
  return result;
}

}  // namespace brink::guest
