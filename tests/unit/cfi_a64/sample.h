// The program of sample.c, and where its functions are.
#pragma once

#include <optional>

#include <gtest/gtest.h>

#include "cfi/facts.h"
#include "elf/file.h"
#include "support/status_matchers.h"

#ifdef A64_SAMPLE

namespace brink::cfi {

class Sample : public testing::Test {
 protected:
  void SetUp() override {
    auto file = elf::File::Open(A64_SAMPLE);
    ASSERT_THAT(file, testing_support::IsOk());
    auto facts = Facts::Load(*file);
    ASSERT_THAT(facts, testing_support::IsOk());
    facts_.emplace(*std::move(facts));
  }
  uint64_t At(std::string_view name) {
    for (const Function& function : facts_->functions()) {
      if (facts_->NameOf(function) == name) return function.start;
    }
    ADD_FAILURE() << "no function " << name;
    return 0;
  }
  std::optional<Facts> facts_;
};

}  // namespace brink::cfi

#endif
