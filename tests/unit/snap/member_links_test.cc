#include "snap/member_links.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "support/status_matchers.h"

namespace brink::snap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::IsOk;

// What a link is does not matter here: a descriptor each, and who was asked for.
class MemberLinksTest : public testing::Test {
 protected:
  std::vector<pid_t> Asked() { return std::exchange(asked_, {}); }

  std::vector<pid_t> asked_;
  int error_ = 0;
  MemberLinks links_{[this](pid_t pid, std::vector<UniqueFd>* links) -> Status {
    asked_.push_back(pid);
    if (error_) return ErrnoError(error_, "no link");
    links->emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return OkStatus();
  }};
};

TEST_F(MemberLinksTest, WhoHasLinksKeepsThemAndWhoIsNotMeantLosesThem) {
  EXPECT_THAT(links_.Set(std::vector<Member>{{10, 1}, {11, 1}}), IsOk());
  EXPECT_THAT(Asked(), ElementsAre(10, 11));
  EXPECT_THAT(links_.Set(std::vector<Member>{{11, 1}, {12, 1}}), IsOk());
  EXPECT_THAT(Asked(), ElementsAre(12));
  EXPECT_EQ(links_.size(), 2u);
  EXPECT_THAT(links_.Set({}), IsOk());
  EXPECT_EQ(links_.size(), 0u);
}

TEST_F(MemberLinksTest, ANumberThatCameBackIsAnotherProcess) {
  EXPECT_THAT(links_.Add({10, 1}, false), IsOk());
  EXPECT_THAT(links_.Add({10, 1}, false), IsOk());
  EXPECT_THAT(Asked(), ElementsAre(10));
  EXPECT_TRUE(links_.Has({10, 1}));
  EXPECT_FALSE(links_.Has({10, 2}));
  EXPECT_THAT(links_.Add({10, 2}, false), IsOk());
  EXPECT_THAT(Asked(), ElementsAre(10));
  EXPECT_EQ(links_.size(), 1u);
}

TEST_F(MemberLinksTest, AnewTakesThePlaceOfWhatIsThere) {
  EXPECT_THAT(links_.Add({10, 1}, false), IsOk());
  EXPECT_THAT(links_.Add({10, 1}, true), IsOk());
  EXPECT_THAT(Asked(), ElementsAre(10, 10));
  EXPECT_EQ(links_.size(), 1u);
}

TEST_F(MemberLinksTest, OneThatHasEndedIsNoErrorAndAnotherErrorIsTriedAgain) {
  error_ = ESRCH;
  EXPECT_THAT(links_.Set(std::vector<Member>{{10, 1}}), IsOk());
  error_ = EMFILE;
  EXPECT_FALSE(links_.Set(std::vector<Member>{{10, 1}}).ok());
  EXPECT_EQ(links_.size(), 0u);
  error_ = 0;
  EXPECT_THAT(links_.Set(std::vector<Member>{{10, 1}}), IsOk());
  EXPECT_EQ(links_.size(), 1u);
}

TEST_F(MemberLinksTest, ThoseOfProcessesThatHaveEndedAreDropped) {
  const auto self = MemberOf(getpid());
  ASSERT_TRUE(self);
  EXPECT_THAT(links_.Set(std::vector<Member>{*self, {1, self->start_time + 1}}), IsOk());
  Asked();
  links_.DropEnded();
  EXPECT_EQ(links_.size(), 1u);
  EXPECT_THAT(links_.Add(*self, false), IsOk());
  EXPECT_THAT(Asked(), IsEmpty());
}

TEST(InParallel, CallsEachOnce) {
  for (size_t count : {0u, 1u, 7u, 1000u}) {
    std::vector<std::atomic<int>> calls(count);
    InParallel(count, [&](size_t i) { ++calls[i]; });
    for (const auto& one : calls) EXPECT_EQ(one, 1);
  }
}

}  // namespace
}  // namespace brink::snap
