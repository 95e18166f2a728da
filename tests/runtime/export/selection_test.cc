// create_llvm_prof and Propeller read perf.data themselves and are not packaged: their rules of selection, written again from
// their sources' behaviour, find in a recording of brink what brink's own exports say.
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <sstream>

#include "base/strings.h"
#include "elf/file.h"
#include "perfdata/reader.h"
#include "programs.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink::export_test {
namespace {

using testing_support::IsOk;
using Counts = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

struct Selected {
  Counts branches, ranges;
  std::map<uint64_t, uint64_t> addresses;
  std::string refused;  // why the tool would read nothing
};

struct Map {
  uint64_t start, end, pgoff;
  bool operator==(const Map&) const = default;
};

// What both tools do before they look at a sample: find the binary by its build id in the table of the file's header, then
// the mappings of the name that stands there, by process.
class Recording {
 public:
  Recording(const std::string& path, const elf::File& binary) : binary_(binary) {
    auto reader = perfdata::Reader::Open(path);
    EXPECT_THAT(reader, IsOk());
    if (!reader.ok()) return;
    reader_ = *std::move(reader);
    const std::string id = binary.BuildId().value_or("");
    for (const perfdata::BuildIdEntry& entry : reader_->features().build_ids) {
      // Names that stand for no file are not looked at.
      if (entry.filename.starts_with("/anon_hugepage") || entry.filename.starts_with("[anon:")) continue;
      if (entry.build_id == id) name_ = entry.filename;
    }
  }
  bool found() const { return !name_.empty(); }

  template <typename OnSample>
  std::string Read(OnSample on_sample) {
    perfdata::Record record;
    while (true) {
      auto more = reader_->Next(&record);
      EXPECT_THAT(more, IsOk());
      if (!more.ok() || !*more) return "";
      if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body); mmap && mmap->filename == name_) {
        const Map map{mmap->start, mmap->start + mmap->length, mmap->pgoff};
        for (const Map& other : maps_[mmap->pid]) {
          // Propeller rejects a file whose mappings of one binary overlap without being equal.
          if (map.start < other.end && other.start < map.end && !(map == other)) return "overlapping mappings";
        }
        maps_[mmap->pid].push_back(map);
      }
      if (const perfdata::Sample* sample = record.sample(); sample && sample->pid && sample->has_branches) on_sample(*sample);
    }
  }

  std::optional<uint64_t> FileOffset(uint32_t pid, uint64_t address) const {
    auto maps = maps_.find(pid);
    if (maps == maps_.end()) return std::nullopt;
    for (const Map& map : maps->second) {
      if (address >= map.start && address < map.end) return address - map.start + map.pgoff;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> Vaddr(uint32_t pid, uint64_t address) const {
    auto offset = FileOffset(pid, address);
    if (!offset) return std::nullopt;
    for (const elf::Segment& segment : binary_.segments()) {
      if (segment.load() && segment.executable() && *offset >= segment.offset && *offset < segment.offset + segment.file_size) return *offset - segment.offset + segment.vaddr;
    }
    return std::nullopt;
  }

 private:
  const elf::File& binary_;
  std::unique_ptr<perfdata::Reader> reader_;
  std::string name_;
  std::map<uint32_t, std::vector<Map>> maps_;
};

// AutoFDO: file offsets, newest first.
Selected Autofdo(const std::string& path, const elf::File& binary) {
  Selected selected;
  Recording recording(path, binary);
  if (!recording.found()) return {.refused = "the build id is not in the header: an empty profile"};
  constexpr uint64_t kLongestRange = 1 << 20, kShortLoop = 0x1000;
  selected.refused = recording.Read([&](const perfdata::Sample& sample) {
    if (auto offset = recording.FileOffset(sample.pid, sample.ip)) ++selected.addresses[*offset];
    std::vector<BranchEntry> stack(sample.branches.begin(), sample.branches.end());
    std::erase_if(stack, [](const BranchEntry& entry) { return entry.spec() == Spec::kWrongPath; });
    if (stack.size() > 1 && stack[0].from == stack[1].from && stack[0].to == stack[1].to && stack[0].from - stack[0].to > kShortLoop) stack.erase(stack.begin());
    for (size_t i = 0; i < stack.size(); ++i) {
      auto from = recording.FileOffset(sample.pid, stack[i].from), to = recording.FileOffset(sample.pid, stack[i].to);
      if (from && to) ++selected.branches[{*from, *to}];
      if (i == 0 || !to) continue;
      auto end = recording.FileOffset(sample.pid, stack[i - 1].from);
      if (end && *end >= *to && *end - *to <= kLongestRange) ++selected.ranges[{*to, *end}];
    }
  });
  return selected;
}

// Propeller: link-time addresses, oldest first.
Selected Propeller(const std::string& path, const elf::File& binary) {
  Selected selected;
  Recording recording(path, binary);
  if (!recording.found()) return {.refused = "no file with the build id"};
  selected.refused = recording.Read([&](const perfdata::Sample& sample) {
    std::optional<uint64_t> previous;
    for (size_t i = sample.branches.size(); i-- > 0;) {
      auto from = recording.Vaddr(sample.pid, sample.branches[i].from), to = recording.Vaddr(sample.pid, sample.branches[i].to);
      if (from && to) ++selected.branches[{*from, *to}];
      if (previous && from && *previous <= *from) ++selected.ranges[{*previous, *from}];
      previous = to;
    }
  });
  return selected;
}

// Three lists of "A-B:N", "A:N" and "A->B:N".
Selected ReadAutofdoText(const std::string& path) {
  Selected selected;
  std::ifstream file(path);
  size_t count = 0;
  std::string row;
  for (int list = 0; list < 3 && file >> count; ++list) {
    for (size_t i = 0; i < count && file >> row; ++i) {
      const size_t dash = row.find('-'), colon = row.find(':');
      const uint64_t first = std::stoull(row.substr(0, std::min(dash, colon)), nullptr, 16), times = std::stoull(row.substr(colon + 1));
      const uint64_t second = dash == std::string::npos ? 0 : std::stoull(row.substr(dash + (list == 2 ? 2 : 1)), nullptr, 16);
      if (list == 1) selected.addresses[first] = times;
      else (list == 0 ? selected.ranges : selected.branches)[{first, second}] = times;
    }
  }
  return selected;
}

// row, object, id, offset, vaddr, function, object, id, offset, vaddr, function, kind, count, ...
Selected ReadRows(const std::string& path, const std::string& program) {
  Selected selected;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string_view> cells = Split(line, ',');
    const std::string name = "\"" + program + "\"";
    if (cells.size() < 13 || cells[1] != name || cells[6] != name) continue;
    auto number = [&](size_t cell) { return std::stoull(std::string(cells[cell]), nullptr, 16); };
    (cells[0] == "\"range\"" ? selected.ranges : selected.branches)[{number(4), number(9)}] += std::stoull(std::string(cells[12]));
  }
  return selected;
}

class Selection : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    program_ = Program(GetParam());
    if (program_.empty()) GTEST_SKIP() << "needs gcc, and for lld clang-19 and lld-19";
    data_ = Record(dir_, "walk.data", {"--source", "walk"}, {program_, "700"});
    auto file = elf::File::Open(program_);
    ASSERT_THAT(file, IsOk());
    binary_.emplace(*std::move(file));
  }
  TempDir dir_;
  std::string program_, data_;
  std::optional<elf::File> binary_;
};

TEST_P(Selection, CreateLlvmProfFindsWhatItsTextSays) {
  Export({"-f", "autofdo", "-i", data_, "-b", program_, "-o", dir_.File("text")});
  const Selected tool = Autofdo(data_, *binary_), text = ReadAutofdoText(dir_.File("text"));
  ASSERT_EQ(tool.refused, "");
  EXPECT_GT(tool.branches.size(), 5u);
  EXPECT_EQ(text.branches, tool.branches);
  EXPECT_EQ(text.ranges, tool.ranges);
  EXPECT_EQ(text.addresses, tool.addresses);
}

TEST_P(Selection, PropellerFindsWhatTheTableSays) {
  Export({"-f", "csv", "-i", data_, "-o", dir_.File("csv")});
  const Selected tool = Propeller(data_, *binary_), table = ReadRows(dir_.File("csv"), program_);
  ASSERT_EQ(tool.refused, "");
  EXPECT_GT(tool.ranges.size(), 5u);
  EXPECT_EQ(table.branches, tool.branches);
  EXPECT_EQ(table.ranges, tool.ranges);
}

INSTANTIATE_TEST_SUITE_P(Programs, Selection, testing::Values("pie", "fixed", "lld"), [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace brink::export_test
