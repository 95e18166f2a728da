// A target: exceptions through several frames, caught by type, with destructors on the way.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Odd : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Guard {
  explicit Guard(int* count) : count(count) { ++*count; }
  ~Guard() { --*count; }
  int* count;
};

int Parse(const std::string& text, int depth, int* live) {
  Guard guard(live);
  if (depth > 0) return Parse(text + "x", depth - 1, live) + 1;
  if (text.size() % 3 == 1) throw Odd("odd " + text);
  if (text.size() % 3 == 2) throw std::out_of_range(text);
  return static_cast<int>(text.size());
}

}  // namespace

int main() {
  std::map<std::string, int> seen;
  int live = 0;
  long sum = 0;
  for (int i = 0; i < 400'000; ++i) {
    try {
      sum += Parse(std::to_string(i * 7919), i % 6, &live);
    } catch (const Odd& odd) {
      ++seen[std::string(odd.what()).substr(0, 6)];
    } catch (const std::exception& other) {
      sum -= static_cast<long>(std::string(other.what()).size());
    }
  }
  std::printf("%ld %zu %d\n", sum, seen.size(), live);
  return live;
}
