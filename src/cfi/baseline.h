// What was seen while a program was known to be well: P12 (indirect edges) and P13 (ways back from sensitive calls).
//
// Everything is by build-id and link-time address, so it holds for any process, host and layout with the same files; a
// new version is a new build-id, of which nothing is known. Kept as 64-bit hashes: two things may share one (once in
// 10^8 at a million edges), which then hides one new edge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/container/flat_hash_set.h>

#include "base/status.h"
#include "cfi/policies.h"

namespace brink::cfi {

class Baseline {
 public:
  static constexpr size_t kMostEntries = 16'000'000;

  bool Knows(const std::string& build_id) const { return !build_id.empty() && files_.contains(build_id); }
  bool HasEdge(std::string_view from_id, uint64_t from, std::string_view to_id, uint64_t to) const { return edges_.contains(Edge(from_id, from, to_id, to)); }
  bool HasPath(uint32_t call, uint64_t name) const { return paths_.contains(Path(call, name)); }

  // Takes the indirect edges of a window that violated nothing, and its way back.
  void Learn(const Window& window, CodeMap& map);
  size_t edges() const { return edges_.size(); }
  size_t paths() const { return paths_.size(); }
  size_t files() const { return files_.size(); }
  bool full() const { return edges_.size() + paths_.size() >= kMostEntries; }

  // Text, one entry a line, sorted: "brink-baseline 1", then "file HEX", "edge HEX", "path HEX". Merging two is joining
  // their lines.
  std::string Text() const;
  static StatusOr<Baseline> Parse(std::string_view text);

 private:
  static uint64_t Edge(std::string_view from_id, uint64_t from, std::string_view to_id, uint64_t to);
  static uint64_t Path(uint32_t call, uint64_t name);

  absl::flat_hash_set<std::string> files_;
  absl::flat_hash_set<uint64_t> edges_, paths_;
};

// A name for the first returns below the window's start (at most three); nothing where there are none.
std::optional<uint64_t> PathOf(const Window& window, CodeMap& map);

}  // namespace brink::cfi
