// Which conditions are judged without the interpreter, and that they mean the same.
#include "snap/tests.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>

#include "lib/filter.h"

namespace brink::snap {
namespace {

brink_filter_op Op(uint8_t code, uint8_t field, uint64_t a = 0, uint64_t b = 0) {
  return {.code = code, .field = field, .length = 0, .reserved8 = 0, .reserved32 = 0, .a = a, .b = b};
}
const brink_filter_op kAnd = Op(BRINK_FOP_AND, 0), kOr = Op(BRINK_FOP_OR, 0), kNot = Op(BRINK_FOP_NOT, 0);

brink_filter_prog Program(std::initializer_list<brink_filter_op> ops) {
  brink_filter_prog prog = {};
  for (const brink_filter_op& op : ops) prog.sample[prog.sample_ops++] = op;
  return prog;
}

TEST(OrderTests, CheapTestsComeFirst) {
  brink_filter_prog prog = Program({Op(BRINK_FOP_SRANGE, BRINK_FF_EXT), Op(BRINK_FOP_RANGE, BRINK_FF_UID, 5, 5), kAnd, Op(BRINK_FOP_RANGE, BRINK_FF_PID, 7, 7), kAnd});
  EXPECT_EQ(OrderTests(&prog), 3u);
  EXPECT_EQ(prog.sample_ops, 5u);
  EXPECT_EQ(prog.sample[0].field, BRINK_FF_PID);
  EXPECT_EQ(prog.sample[1].field, BRINK_FF_UID);
  EXPECT_EQ(prog.sample[2].field, BRINK_FF_EXT);
  EXPECT_EQ(prog.sample[3].code, BRINK_FOP_AND);
  EXPECT_EQ(prog.sample[4].code, BRINK_FOP_AND);
}

TEST(OrderTests, OtherProgramsAreLeftAlone) {
  const brink_filter_op pid = Op(BRINK_FOP_RANGE, BRINK_FF_PID, 1, 1), constant = Op(BRINK_FOP_CONST, 0, BRINK_FILTER_TRUE);
  for (brink_filter_prog prog : {Program({}), Program({pid, pid, kOr}), Program({pid, kNot}), Program({constant}), Program({pid, constant, kAnd}),
                                 Program({pid, pid, kAnd, pid, kAnd, pid, kAnd, pid, kAnd})}) {
    const brink_filter_prog before = prog;
    EXPECT_EQ(OrderTests(&prog), 0u);
    EXPECT_EQ(memcmp(&before, &prog, sizeof(prog)), 0);
  }
}

// Three inputs that are false, true or unknown, in each combination: the order changes nothing.
TEST(OrderTests, TheProgramMeansTheSame) {
  for (int inputs = 0; inputs < 27; ++inputs) {
    brink_filter_in in = {};
    int rest = inputs;
    const uint8_t fields[] = {BRINK_FF_EXT, BRINK_FF_CGROUP, BRINK_FF_CPU};
    for (uint8_t field : fields) {
      const bool known = rest % 3 != 2;
      if (field == BRINK_FF_EXT) {
        in.ext[0] = static_cast<uint64_t>(rest % 3);
        in.ext_known = known;
      } else {
        in.value[field] = static_cast<uint64_t>(rest % 3);
        in.known |= static_cast<uint32_t>(known) << field;
      }
      rest /= 3;
    }
    brink_filter_prog prog = Program({Op(BRINK_FOP_RANGE, fields[0], 1, 1), Op(BRINK_FOP_RANGE, fields[1], 1, 1), Op(BRINK_FOP_RANGE, fields[2], 1, 1), kAnd, kAnd});
    const uint32_t before = brink_filter_sample(&prog, &in);
    ASSERT_EQ(OrderTests(&prog), 3u);
    EXPECT_EQ(brink_filter_sample(&prog, &in), before) << inputs;
  }
}

}  // namespace
}  // namespace brink::snap
