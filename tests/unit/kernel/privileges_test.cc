#include "kernel/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::StatusIs;

// Runs `body` in a child, because what it does cannot be undone; its result is the child's status.
template <typename Body>
int InChild(Body body) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(DropPrivileges, KeepsWhatIsNamedAndNothingElse) {
  if (!CapSet::ReadPermitted().Has(CAP_PERFMON)) GTEST_SKIP() << "needs root: there is nothing to drop";
  EXPECT_EQ(InChild([] {
              if (!DropPrivileges({CAP_PERFMON}).ok()) return 1;
              CapSet only = CapSet().With(CAP_PERFMON);
              if (CapSet::ReadEffective() != only || CapSet::ReadPermitted() != only) return 2;
              if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 3;
              if (::prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 0) return 4;
              // A second time changes nothing and gives nothing back.
              if (!DropPrivileges({CAP_PERFMON, CAP_SYS_ADMIN}).ok() || CapSet::ReadPermitted() != only) return 5;
              return 0;
            }),
            0);
}

// Executing a program as root must not bring the rights back: the bounding set is gone too.
TEST(DropPrivileges, AnExecutedProgramGetsNothingBack) {
  if (!CapSet::ReadPermitted().Has(CAP_SETPCAP)) GTEST_SKIP() << "needs root";
  EXPECT_EQ(InChild([] {
              if (!DropPrivileges({}).ok()) return 1;
              ::execl("/bin/sh", "sh", "-c", "grep -q '^CapEff:\t0000000000000000$' /proc/self/status", nullptr);
              return 2;
            }),
            0);
}

TEST(PerfNeedsSysAdmin, LeavesTheRightsAsTheyWere) {
  const CapSet before = CapSet::ReadEffective();
  const bool needs = PerfNeedsSysAdmin();
  EXPECT_EQ(CapSet::ReadEffective(), before);
  EXPECT_EQ(PerfNeedsSysAdmin(), needs);
  EXPECT_EQ(InChild([] { return DropPrivileges({}).ok() && !PerfNeedsSysAdmin() ? 0 : 1; }), 0) << "without the right there is nothing to keep";
}

TEST(DropPrivileges, WorksWithoutAnyRights) {
  EXPECT_EQ(InChild([] { return DropPrivileges({}).ok() && DropPrivileges({CAP_BPF}).ok() && CapSet::ReadEffective().empty() ? 0 : 1; }), 0);
}

TEST(RequireRecordingRights, NamesTheSetcapLine) {
  EXPECT_THAT(RequireRecordingRights(CapSet().With(CAP_BPF).With(CAP_PERFMON)), IsOk());
  EXPECT_THAT(RequireRecordingRights(CapSet().With(CAP_SYS_ADMIN)), IsOk());
  EXPECT_THAT(RequireRecordingRights(CapSet().With(CAP_BPF)),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("setcap cap_bpf,cap_perfmon+ep " + OwnBinaryPath())));
}

}  // namespace
}  // namespace brink
