#include "container/cgroup_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string kId(64, 'c');

CgroupNames Recorded() { return CgroupNames({.runtime_root = "/nonexistent"}, /*live=*/false); }

TEST(CgroupNames, AContainerHasItsIdsAndAPathOfItsOwn) {
  CgroupNames names = Recorded();
  names.Learn(7, "/docker/" + kId);
  EXPECT_THAT(names.Of(7).path, ElementsAre("/docker/" + kId));
  EXPECT_THAT(names.Of(7).container, Contains(kId));
  EXPECT_THAT(names.Of(7).container, Contains(kId.substr(0, 12)));
  EXPECT_THAT(names.Of(7).pod, ElementsAre(""));
}

TEST(CgroupNames, APodHasItsUid) {
  CgroupNames names = Recorded();
  names.Learn(8, "/kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/" + kId);
  EXPECT_THAT(names.Of(8).pod, Contains("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"));
  EXPECT_THAT(names.Of(8).container, Contains(kId));
}

TEST(CgroupNames, NoContainerIsTheEmptyNameAndNotUnknown) {
  CgroupNames names = Recorded();
  names.Learn(9, "/system.slice/ssh.service");
  EXPECT_THAT(names.Of(9).container, ElementsAre(""));
  EXPECT_THAT(names.Of(9).pod, ElementsAre(""));
  EXPECT_EQ(names.unknown(), 0u);
}

TEST(CgroupNames, WhatARecordingDoesNotNameIsUnknown) {
  CgroupNames names = Recorded();
  EXPECT_THAT(names.Of(1).path, IsEmpty());  // 1 is the root group of every host: not looked up
  EXPECT_THAT(names.Of(0).container, IsEmpty());
  EXPECT_EQ(names.unknown(), 2u);
}

TEST(CgroupNames, ALaterRecordRenames) {
  CgroupNames names = Recorded();
  names.Learn(7, "/docker/" + kId);
  EXPECT_THAT(names.Of(7).container, Contains(kId));
  names.Learn(7, "/user.slice");
  EXPECT_THAT(names.Of(7).container, ElementsAre(""));
}

}  // namespace
}  // namespace brink
