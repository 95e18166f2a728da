// Which of many (possibly nested) address ranges hold an address.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace brink::dwarf {

class Intervals {
 public:
  void Add(uint64_t low, uint64_t high, uint32_t value) {
    if (low < high) items_.push_back({low, high, 0, value});
  }
  // After the last Add, before the first ForEach.
  void Finish() {
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.low < b.low; });
    uint64_t furthest = 0;
    for (Item& item : items_) item.furthest = furthest = std::max(furthest, item.high);
  }
  size_t size() const { return items_.size(); }
  // Calls visit(value, low, high) for each range that holds `address`, those that start last first.
  template <typename Visit>
  void ForEach(uint64_t address, Visit visit) const {
    auto it = std::upper_bound(items_.begin(), items_.end(), address, [](uint64_t value, const Item& item) { return value < item.low; });
    while (it != items_.begin()) {
      --it;
      if (it->furthest <= address) return;  // nothing before reaches this far
      if (address < it->high) visit(it->value, it->low, it->high);
    }
  }

 private:
  struct Item {
    uint64_t low, high, furthest;
    uint32_t value;
  };
  std::vector<Item> items_;
};

}  // namespace brink::dwarf
