// Every combination of switches that a session may set passes the verifier of the running kernel.
#include <gtest/gtest.h>

#include "session/core.h"
#include "session/event_source.h"
#include "support/core_context.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::IsOk;

struct Case {
  const char* name;
  uint32_t mode;
  uint32_t flags;
};

class Load : public testing::TestWithParam<Case> {};

TEST_P(Load, AllSourcesPassTheVerifier) {
  SKIP_UNLESS("bpf.perf_event");
  const Case& c = GetParam();
  std::unique_ptr<EventSource> sources[] = {EventSource::None(), EventSource::Lbr(PERF_SAMPLE_BRANCH_ANY, 32),
                                            EventSource::Replay({{.entries = {{1, 2, 0}}}})};
  for (auto& source : sources) {
    BpfCore::Options options = {.config = {.target_mode = c.mode, .flags = c.flags, .depth = 16, .cgroups = 2, .wake_bytes = 4096,
                                           .source = static_cast<uint32_t>(source->traits().id)},
                                .ring_bytes = 1 << 20, .track_tasks = true};
    if (source->traits().id == BRINK_SOURCE_REPLAY) options.config.flags |= BRINK_CFG_REPLAY;
    auto core = BpfCore::Load(options);
    ASSERT_THAT(core, IsOk()) << c.name;
    testing_support::CoreContext context(**core, {0}, true);
    EXPECT_THAT(source->Load(context), IsOk()) << c.name << " " << source->traits().name;
    EXPECT_NE(source->program(), nullptr);
    EXPECT_THAT((*core)->Attach(), IsOk()) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Switches, Load,
    testing::Values(Case{"all", BRINK_TARGET_ALL, 0}, Case{"processes", BRINK_TARGET_TGIDS, BRINK_CFG_TASK_EVENTS},
                    Case{"threads", BRINK_TARGET_TIDS, BRINK_CFG_SKIP_KERNEL}, Case{"cgroups", BRINK_TARGET_CGROUP, BRINK_CFG_SKIP_USER},
                    Case{"chains", BRINK_TARGET_ALL, BRINK_CFG_CHAIN_USER | BRINK_CFG_CHAIN_KERNEL},
                    Case{"events", BRINK_TARGET_TGIDS, BRINK_CFG_COOKIE | BRINK_CFG_NO_CHILDREN | BRINK_CFG_CHAIN_USER}),
    [](const auto& info) { return std::string(info.param.name); });


}  // namespace
}  // namespace brink
