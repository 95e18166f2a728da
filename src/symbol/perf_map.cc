#include "symbol/perf_map.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/strings.h"

namespace brink::symbol {
namespace {

constexpr size_t kMaxName = 4096, kMostLines = 200'000;

// Takes a hexadecimal number (with or without 0x) and the blanks behind it off the front of `text`.
bool TakeHex(std::string_view& text, uint64_t* value) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  size_t length = static_cast<size_t>(end - text.data());
  if (error != std::errc() || length == text.size() || text[length] != ' ') return false;
  text.remove_prefix(length);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

}  // namespace

PerfMap ParsePerfMap(std::string_view text) {
  PerfMap map;
  std::vector<JitSymbol> symbols;
  // Anyone writes such a file: more lines than code that one process keeps would only take our memory.
  const size_t lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  for (size_t skip = lines > kMostLines ? lines - kMostLines : 0; skip > 0; --skip, ++map.damaged) text.remove_prefix(text.find('\n') + 1);
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) continue;
    JitSymbol symbol;
    if (!TakeHex(line, &symbol.start) || !TakeHex(line, &symbol.size) || line.empty() || symbol.start + symbol.size < symbol.start) {
      ++map.damaged;
      continue;
    }
    symbol.name = std::string(Trim(line).substr(0, kMaxName));
    if (symbol.size > 0) symbols.push_back(std::move(symbol));
  }
  map.symbols = LatestWins(std::move(symbols));
  return map;
}

std::vector<JitSymbol> LatestWins(std::vector<JitSymbol> symbols) {
  std::map<uint64_t, JitSymbol> placed;  // by start, disjoint
  for (JitSymbol& symbol : symbols) {
    uint64_t start = symbol.start, end = symbol.start + symbol.size;
    auto it = placed.upper_bound(start);
    if (it != placed.begin() && std::prev(it)->second.start + std::prev(it)->second.size > start) --it;
    while (it != placed.end() && it->first < end) {
      JitSymbol old = std::move(it->second);
      it = placed.erase(it);
      uint64_t old_end = old.start + old.size;
      // Code that was partly overwritten is gone as a whole; what stands before the new code may still run.
      if (old.start < start) {
        old.size = start - old.start;
        placed.emplace(old.start, std::move(old));
      } else if (old_end > end) {
        old.size = old_end - end;
        old.start = end;
        it = placed.emplace(end, std::move(old)).first;
        ++it;
      }
    }
    placed.insert_or_assign(start, std::move(symbol));
  }
  std::vector<JitSymbol> sorted;
  sorted.reserve(placed.size());
  for (auto& [start, symbol] : placed) sorted.push_back(std::move(symbol));
  return sorted;
}

}  // namespace brink::symbol
