#include "ledger.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace brink::fidelity {
namespace {

// "unknown-condition jz" is one word in the file.
std::string Word(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '/');
  return text;
}

struct Field {
  const char* name;
  uint32_t Tally::*value;
};
constexpr Field kFields[] = {
    {"windows", &Tally::windows},   {"full", &Tally::exact_full},       {"shortened", &Tally::shortened}, {"wrong", &Tally::wrong},
    {"explained", &Tally::explained}, {"disturbed", &Tally::disturbed}, {"half", &Tally::at_least_half},
};

void Take(const std::string& key, const std::string& value, Tally* tally) {
  uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
  for (const Field& field : kFields) {
    if (key == field.name) tally->*field.value = static_cast<uint32_t>(number);
  }
  if (key == "branches") tally->branches = number;
  if (key == "steps") tally->steps = number;
  if (key.starts_with("stop:")) tally->stops[std::atoi(key.c_str() + 5)] = static_cast<uint32_t>(number);
  if (key.starts_with("at:")) {
    std::string what = key.substr(3);
    std::replace(what.begin(), what.end(), '/', ' ');
    tally->at_instruction[what] = static_cast<uint32_t>(number);
  }
}

}  // namespace

Tally* LedgerSet::Of(const std::string& program) {
  for (auto& [name, tally] : programs) {
    if (name == program) return &tally;
  }
  programs.emplace_back(program, Tally{});
  return &programs.back().second;
}

Status AppendTally(const std::string& path, const std::string& set, const std::string& program, const Tally& tally) {
  std::string line = absl::StrFormat("set=%s program=%s", Word(set), Word(program));
  for (const Field& field : kFields) absl::StrAppendFormat(&line, " %s=%d", field.name, tally.*field.value);
  absl::StrAppendFormat(&line, " branches=%d steps=%d", tally.branches, tally.steps);
  for (const auto& [stop, count] : tally.stops) absl::StrAppendFormat(&line, " stop:%d=%d", stop, count);
  for (const auto& [what, count] : tally.at_instruction) absl::StrAppendFormat(&line, " at:%s=%d", Word(what), count);
  std::ofstream out(path, std::ios::app);
  out << line << " end=1\n" << std::flush;
  return out ? OkStatus() : ErrnoError(errno, "write " + path);
}

std::vector<LedgerSet> ReadLedger(const std::string& path) {
  std::vector<LedgerSet> sets;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.ends_with(" end=1")) continue;
    std::map<std::string, std::string> words;
    std::istringstream rest(line);
    Tally tally;
    for (std::string word; rest >> word;) {
      size_t equals = word.rfind('=');
      if (equals == std::string::npos) continue;
      std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      words[key] = value;
      Take(key, value, &tally);
    }
    std::string name = words["set"];
    std::replace(name.begin(), name.end(), '/', ' ');
    auto set = std::find_if(sets.begin(), sets.end(), [&](const LedgerSet& s) { return s.name == name; });
    if (set == sets.end()) set = sets.insert(sets.end(), LedgerSet{name, {}});
    set->Of(words["program"])->Add(tally);
  }
  return sets;
}

}  // namespace brink::fidelity
