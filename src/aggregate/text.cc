// Lines of the aggregate file, out and in.
#include <algorithm>
#include <charconv>
#include <limits>

#include <absl/strings/str_format.h>

#include "aggregate/file.h"
#include "base/strings.h"

namespace brink::aggregate {
namespace {

using symbol::ObjectKind;

constexpr uint64_t kVersion = 1;
constexpr std::string_view kMagic = "brink-aggregate";
constexpr std::string_view kRulePrefix = "rule.";

// Separators, backslashes and control characters of untrusted names as \xNN.
std::string Escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') absl::StrAppendFormat(&out, "\\x%02x", byte);
    else out += c;
  }
  return out;
}

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' && std::from_chars(text.data() + i + 2, text.data() + i + 4, value, 16).ptr == text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

template <size_t N>
void AppendFields(const std::array<uint64_t, N>& fields, std::string* out) {
  size_t last = N;
  while (last > 1 && fields[last - 1] == 0) --last;
  for (size_t i = 0; i < last; ++i) absl::StrAppendFormat(out, "\t%d", fields[i]);
  *out += '\n';
}

// Rows of one population, each a line; sorted as text, so the order does not depend on the object numbers.
std::vector<std::string> RowsOf(const Data& data, const std::string& name, const Population& population) {
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < data.object_count(); ++i) keys.push_back(Escape(data.key(i)));
  std::vector<std::string> rows;
  const std::string escaped = Escape(name);
  for (const auto& [pair, counts] : population.branches) {
    std::string& row = rows.emplace_back(absl::StrFormat("B\t%s\t%s\t%x\t%s\t%x\t%s", escaped, keys[pair.first.object], pair.first.offset, keys[pair.second.object],
                                                         pair.second.offset, std::string(KindName(counts.kind))));
    AppendFields(counts.fields, &row);
  }
  for (const auto& [key, counts] : population.ranges) {
    std::string& row = rows.emplace_back(absl::StrFormat("R\t%s\t%s\t%x\t%x", escaped, keys[key.start.object], key.start.offset, key.end));
    AppendFields(counts.fields, &row);
  }
  for (const auto& [location, count] : population.ips) {
    rows.push_back(absl::StrFormat("I\t%s\t%s\t%x\t%d\n", escaped, keys[location.object], location.offset, count));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

class Parser {
 public:
  StatusOr<Data> Run(std::string_view text) {
    while (!text.empty() && !ended_) {
      const size_t end = text.find('\n');
      if (end == std::string_view::npos) return Wrong("a line without its end: cut short");
      ++line_;
      if (Status status = Line(text.substr(0, end)); !status.ok()) return status;
      text.remove_prefix(end + 1);
    }
    if (line_ == 0) return InvalidArgument("empty: no aggregate");
    if (!ended_) return DataLoss("cut short: the last line is missing");
    return std::move(data_);
  }

 private:
  Status Wrong(const std::string& what) const { return DataLoss(absl::StrFormat("line %d: %s", line_, what)); }

  Status Line(std::string_view line) {
    fields_ = Split(line, '\t');
    if (line_ == 1) return First();
    if (line.empty()) return Wrong("an empty line");
    if (fields_[0].size() != 1) return Wrong("'" + EscapeForTerminal(fields_[0].substr(0, 20)) + "' is no kind of line");
    switch (fields_[0][0]) {
      case 'U': return UnitLine();
      case 'P': return PopulationLine();
      case 'O': return ObjectLine();
      case 'B': return BranchLine();
      case 'R': return RangeLine();
      case 'I': return IpLine();
      case 'E': return EndLine();
      default: return OkStatus();  // of a later version
    }
  }

  Status First() {
    if (fields_.size() != 2 || fields_[0] != kMagic) return InvalidArgument("no aggregate of brink");
    ASSIGN_OR_RETURN(uint64_t version, Number(1, 10));
    if (version != kVersion) return Unimplemented(absl::StrFormat("version %d of the aggregate file; this brink reads %d", version, kVersion));
    return OkStatus();
  }
  Status UnitLine() {
    if (fields_.size() != 2) return Wrong("a unit line has one field");
    auto unit = ParseUnit(fields_[1]);
    if (!unit.ok()) return Wrong(Message(unit.status()));
    data_.unit = *unit;
    return OkStatus();
  }

  StatusOr<uint64_t> Number(size_t field, int base) const {
    if (field >= fields_.size()) return Wrong("too few fields");
    return Value(fields_[field], base);
  }
  StatusOr<uint64_t> Value(std::string_view text, int base) const {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) return Wrong("'" + EscapeForTerminal(text.substr(0, 40)) + "' is no number");
    return value;
  }

  Status PopulationLine() {
    if (fields_.size() < 2) return Wrong("a population without a name");
    Population& population = data_.population(Unescape(fields_[1]));
    for (size_t i = 2; i < fields_.size(); ++i) {
      const size_t equals = fields_[i].find('=');
      if (equals == std::string_view::npos) return Wrong("expected NAME=NUMBER");
      const std::string_view name = fields_[i].substr(0, equals);
      ASSIGN_OR_RETURN(uint64_t value, Value(fields_[i].substr(equals + 1), 10));
      if (name.starts_with(kRulePrefix)) {
        uint64_t& rule = population.rules[std::string(name.substr(kRulePrefix.size()))];
        rule = SaturatingAdd(rule, value);
      }
      for (size_t fact = 0; fact < kFacts; ++fact) {
        if (name != FactNames()[fact].name) continue;
        uint64_t& sum = population.facts[fact];
        sum = FactNames()[fact].greatest ? std::max(sum, value) : SaturatingAdd(sum, value);
      }
    }
    return OkStatus();
  }

  // "f:0123ab", "f:=/path"; kinds by their letter.
  StatusOr<uint32_t> Object(size_t field) {
    if (field >= fields_.size()) return Wrong("too few fields");
    const std::string_view key = fields_[field];
    auto known = ids_.find(key);
    if (known != ids_.end()) return known->second;
    constexpr std::string_view kLetters = "nfkmvybj";
    const size_t kind = key.size() >= 2 && key[1] == ':' ? kLetters.find(key[0]) : std::string_view::npos;
    if (kind == std::string_view::npos) return Wrong("'" + EscapeForTerminal(key.substr(0, 60)) + "' names no object");
    ObjectInfo object{.kind = static_cast<ObjectKind>(kind)};
    std::string_view rest = key.substr(2);
    if (object.kind == ObjectKind::kKernel) {
      const size_t slash = rest.rfind('/');
      if (slash == std::string_view::npos) return Wrong("a kernel without its reference symbol");
      object.reference = Unescape(rest.substr(slash + 1));
      rest = rest.substr(0, slash);
    }
    if (rest.starts_with('=')) {
      object.path = Unescape(rest.substr(1));
    } else {
      for (size_t i = 0; i + 1 < rest.size(); i += 2) {
        ASSIGN_OR_RETURN(uint64_t byte, Value(rest.substr(i, 2), 16));
        object.build_id += static_cast<char>(byte);
      }
      constexpr size_t kLongestId = 64;
      if (rest.size() % 2 || object.build_id.size() > kLongestId) return Wrong("not a build id");
    }
    const uint32_t id = data_.Intern(object);
    ids_.emplace(key, id);
    return id;
  }
  Status ObjectLine() {
    ASSIGN_OR_RETURN(uint32_t id, Object(1));
    ObjectInfo object = data_.object(id);
    if (fields_.size() > 2) object.path = Unescape(fields_[2]);
    if (!data_.object(id).build_id.empty()) data_.Intern(object);
    return OkStatus();
  }
  StatusOr<Location> Place(size_t field) {
    ASSIGN_OR_RETURN(uint32_t object, Object(field));
    ASSIGN_OR_RETURN(uint64_t offset, Number(field + 1, 16));
    return data_.LocationOf(object, offset);
  }
  // Later versions may append columns; missing ones are 0.
  template <size_t N>
  Status AddFields(size_t first, std::array<uint64_t, N>* sums) {
    if (first >= fields_.size()) return Wrong("too few fields");
    for (size_t i = 0; i < N && first + i < fields_.size(); ++i) {
      ASSIGN_OR_RETURN(uint64_t value, Value(fields_[first + i], 10));
      (*sums)[i] = SaturatingAdd((*sums)[i], value);
    }
    return OkStatus();
  }
  Population& OfRow() {
    if (!last_ || last_name_ != fields_[1]) {
      last_name_ = std::string(fields_[1]);
      last_ = &data_.population(Unescape(fields_[1]));
    }
    ++rows_;
    return *last_;
  }
  Status BranchLine() {
    ASSIGN_OR_RETURN(Location from, Place(2));
    ASSIGN_OR_RETURN(Location to, Place(4));
    if (fields_.size() < 7) return Wrong("too few fields");
    auto kind = ParseKind(fields_[6]);
    if (!kind) return Wrong("'" + EscapeForTerminal(fields_[6]) + "' is no kind of branch");
    BranchCounts& counts = OfRow().branches[{from, to}];
    counts.kind = std::max(counts.kind, *kind);
    return AddFields(7, &counts.fields);
  }
  Status RangeLine() {
    ASSIGN_OR_RETURN(Location start, Place(2));
    ASSIGN_OR_RETURN(uint64_t end, Number(4, 16));
    if (end < start.offset) return Wrong("a range that ends before it starts");
    return AddFields(5, &OfRow().ranges[{start, end}].fields);
  }
  Status IpLine() {
    ASSIGN_OR_RETURN(Location location, Place(2));
    ASSIGN_OR_RETURN(uint64_t count, Number(4, 10));
    uint64_t& sum = OfRow().ips[location];
    sum = SaturatingAdd(sum, count);
    return OkStatus();
  }
  Status EndLine() {
    ASSIGN_OR_RETURN(uint64_t rows, Number(1, 10));
    if (rows != rows_) return Wrong(absl::StrFormat("%d rows are there, %d were written", rows_, rows));
    ended_ = true;
    return OkStatus();
  }

  Data data_;
  size_t line_ = 0;
  uint64_t rows_ = 0;
  bool ended_ = false;
  std::vector<std::string_view> fields_;
  std::map<std::string, uint32_t, std::less<>> ids_;
  std::string last_name_;
  Population* last_ = nullptr;
};

}  // namespace

std::string ToText(const Data& data) {
  std::string out = absl::StrFormat("%s\t%d\nU\t%s\n", std::string(kMagic), kVersion, std::string(UnitName(data.unit)));
  for (const auto& [name, population] : data.populations()) {
    out += "P\t" + Escape(name);
    for (size_t i = 0; i < kFacts; ++i) {
      if (population.facts[i]) absl::StrAppendFormat(&out, "\t%s=%d", FactNames()[i].name, population.facts[i]);
    }
    for (const auto& [rule, count] : population.rules) {
      if (count) absl::StrAppendFormat(&out, "\t%s%s=%d", std::string(kRulePrefix), rule, count);
    }
    out += '\n';
  }
  std::vector<std::string> objects;
  for (uint32_t i = 0; i < data.object_count(); ++i) {
    const ObjectInfo& object = data.object(i);
    objects.push_back("O\t" + Escape(data.key(i)) + "\t" + Escape(object.path) + "\n");
  }
  std::sort(objects.begin(), objects.end());
  for (const std::string& line : objects) out += line;
  uint64_t rows = 0;
  for (const auto& [name, population] : data.populations()) {
    for (const std::string& row : RowsOf(data, name, population)) {
      out += row;
      ++rows;
    }
  }
  absl::StrAppendFormat(&out, "E\t%d\n", rows);
  return out;
}

StatusOr<Data> FromText(std::string_view text) { return Parser().Run(text); }

}  // namespace brink::aggregate
