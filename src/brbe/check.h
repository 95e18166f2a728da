// A BRBE configuration in words: what is recorded where, what freezes it, who may touch it, what is missing to know.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::brbe {

// What is known. Registers by name; absent ones are not known, and answers that hang on them say so.
struct Environment {
  struct Register {
    uint64_t value = 0;
    uint64_t known = ~uint64_t{0};  // bits that were given: a single field leaves the others not known
  };
  std::map<std::string, Register> registers;
  std::optional<bool> has_el2, has_el3;
  std::optional<bool> v1p1;  // also from ID_AA64DFR0_EL1
  // The whole register; nullopt where any bit of it is not known.
  std::optional<uint64_t> Get(std::string_view name) const;
  // One field of it.
  std::optional<uint64_t> Field(std::string_view name, std::string_view field) const;
};

// "brbcr_el1=0xC0013B", "el2=no", "feature=v1p1", "hcr_el2.tge=1" (a single field).
Status AddWord(Environment& environment, std::string_view word);

struct Finding {
  enum class Level { kInfo, kOk, kWarning, kProblem } level = Level::kInfo;
  std::string topic;
  std::string text;
  std::vector<std::string> hangs_on;  // inputs not given
};

std::vector<Finding> CheckConfiguration(const Environment& environment);
bool HasProblem(const std::vector<Finding>& findings);

std::string FindingsText(const std::vector<Finding>& findings);
std::string FindingsJson(const std::vector<Finding>& findings);

}  // namespace brink::brbe
