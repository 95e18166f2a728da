#include "ptrace/exclusive.h"

#include <cstring>

#include <gtest/gtest.h>

namespace brink::ptrace {
namespace {

constexpr uint64_t kBase = 0x10000;

class Code : public decode::Memory {
 public:
  explicit Code(std::vector<uint32_t> words) : words_(std::move(words)) {}
  size_t Read(uint64_t address, void* out, size_t size) override {
    const size_t bytes = words_.size() * sizeof words_[0];
    if (address < kBase || address >= kBase + bytes) return 0;
    const size_t part = std::min<size_t>(size, kBase + bytes - address);
    std::memcpy(out, reinterpret_cast<const char*>(words_.data()) + (address - kBase), part);
    return part;
  }

 private:
  std::vector<uint32_t> words_;
};

std::optional<Exclusive> Scan(std::vector<uint32_t> words) {
  Code code(std::move(words));
  return ScanExclusive(kBase, code, decode::Machine::kA64);
}

constexpr uint32_t kLoad = 0xc85ffc20;     // ldaxr x0, [x1]
constexpr uint32_t kStore = 0xc803fc20;    // stlxr w3, x0, [x1]
constexpr uint32_t kCompare = 0xeb02001f;  // cmp x0, x2
constexpr uint32_t kAdd = 0x91000400;      // add x0, x0, #1

constexpr uint32_t NotEqual(int words) { return 0x54000001u | (static_cast<uint32_t>(words) & 0x7ffff) << 5; }

TEST(Exclusive, EndsBehindItsStore) {
  auto found = Scan({kLoad, kAdd, kStore, 0x35ffffa3 /* cbnz w3, -12 */});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->end, kBase + 12);
  EXPECT_TRUE(found->exits.empty());
  EXPECT_EQ(found->Ends(), std::vector<uint64_t>{kBase + 12});
}

TEST(Exclusive, KnowsWhereItIsLeft) {
  auto found = Scan({kLoad, kCompare, NotEqual(4), kStore, 0x35ffff83});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->end, kBase + 16);
  ASSERT_EQ(found->exits.size(), 1u);
  EXPECT_EQ(found->exits[0].from, kBase + 8);
  EXPECT_EQ(found->exits[0].to, kBase + 24);
}

TEST(Exclusive, RefusesWhatDoesNotTellTheWay) {
  EXPECT_FALSE(Scan({kLoad, kCompare, NotEqual(6), kAdd, NotEqual(4), kStore}).has_value()) << "two branches to one place";
  EXPECT_FALSE(Scan({kLoad, kCompare, NotEqual(2), kAdd, kStore}).has_value()) << "a branch to its own inside";
  EXPECT_FALSE(Scan({kLoad, kCompare, NotEqual(2), kStore, kAdd}).has_value()) << "a branch to its end";
  EXPECT_FALSE(Scan({kLoad, 0xd65f03c0 /* ret */, kStore}).has_value());
  EXPECT_FALSE(Scan({kLoad, kLoad, kStore}).has_value()) << "two loads";
  EXPECT_FALSE(Scan({kLoad, kAdd, kAdd}).has_value()) << "no store can be read";
  EXPECT_FALSE(Scan(std::vector<uint32_t>(64, kLoad)).has_value());
}

}  // namespace
}  // namespace brink::ptrace
