// Random code for the walker: it branches, calls and touches a little memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/walk_state.h"

namespace brink::walk_test {

class CodeMaker {
 public:
  explicit CodeMaker(uint64_t seed);
  void Fill(std::span<uint8_t> code);
  void State(brink_walk* state, bool known) { maker_.State(state, known); }
  StateMaker& maker() { return maker_; }

 private:
  void Branch(std::vector<uint8_t>* out, const std::vector<size_t>& starts);
  void Anchor(std::vector<uint8_t>* out);

  StateMaker maker_;
  std::vector<std::vector<uint8_t>> pool_;  // single instructions
};

}  // namespace brink::walk_test
