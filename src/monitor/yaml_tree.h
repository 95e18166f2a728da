// A YAML document as plain values, read with libyaml. Input is untrusted: depth, size and aliases are bounded.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::cfi {

struct YamlKey;

struct YamlValue {
  enum class Kind { kScalar, kList, kMap } kind = Kind::kScalar;
  size_t line = 0;  // from 1
  std::string text;              // kScalar
  std::vector<YamlValue> items;  // kList
  std::vector<YamlKey> keys;     // kMap, in order; no key twice
};

struct YamlKey {
  std::string key;
  YamlValue value;
};

// One document. Errors name `name` and the line.
StatusOr<YamlValue> ParseYaml(std::string_view text, const std::string& name);

}  // namespace brink::cfi
