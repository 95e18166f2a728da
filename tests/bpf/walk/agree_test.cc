// The BPF build and the host build of the core agree, byte for byte, on the state and the branches that a walk leaves:
// random code on random, partly unknown states. BRINK_LONG=1 makes it two million walks.
#include "agree.h"
#include "random_code.h"
#include "walk_test.skel.h"

namespace brink::walk_test {
namespace {

struct X86 {
  using Skeleton = walk_test_bpf;
  using Maker = CodeMaker;
  static Skeleton* Open() { return walk_test_bpf__open(); }
  static int Load(Skeleton* object) { return walk_test_bpf__load(object); }
  static void Destroy(Skeleton* object) { walk_test_bpf__destroy(object); }
  static walk::LiftOptions Options() { return walk::LiftOptions::Host(); }
  static void Begin(brink_walk* state, const brink_walk_config& config) { walk::CoreBegin(state, config); }
  static void Run(const walk::CoreEnvironment& env, brink_walk* state, brink_walk_out* out) { walk::CoreRun(env, state, out); }
  static constexpr size_t kWaysToEnd = 8;
  static constexpr uint64_t kWalks = 100'000;
};

using Agree = AgreeOf<X86>;

TEST_F(Agree, OnEveryStateThatAWalkLeaves) { OnEveryStateThatAWalkLeaves(); }

}  // namespace
}  // namespace brink::walk_test
