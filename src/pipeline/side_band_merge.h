// Puts the side-band records of several rings into one order by time.
//
// Rings are read one after another, and what follows from a record (whose child is whose) must not depend on which CPU
// wrote it: the fork of a grandchild may stand in a ring that is read before the ring with the fork of its parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace brink {

// One thread. Memory: the records of one round, at most the rings' size.
class SideBandMerge {
 public:
  // A whole record with its SideBandId trailer, copied.
  void Add(std::span<const std::byte> record);

  // Calls fn(record) for the records up to `until_ns`, in order of time (of arrival where equal); keeps the rest.
  template <typename Fn>
  void Release(uint64_t until_ns, Fn fn) {
    Sort();
    size_t n = 0;
    for (; n < held_.size() && held_[n].time_ns <= until_ns; ++n) fn(std::span<const std::byte>(bytes_).subspan(held_[n].offset, held_[n].size));
    Drop(n);
  }

  size_t size() const { return held_.size(); }

 private:
  struct Held {
    uint64_t time_ns;
    size_t offset, size;
  };
  void Sort();
  void Drop(size_t count);

  std::vector<std::byte> bytes_;
  std::vector<Held> held_;
};

}  // namespace brink
