#include "cli/script_symbols.h"

#include <absl/container/flat_hash_map.h>

#include "report/feed.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::cli {
namespace {

class ScriptSymbols : public script::Symbols {
 public:
  ScriptSymbols(const perfdata::Reader& reader, bool lines)
      : lines_(lines), spaces_(&objects_), symbolizer_(&objects_, OptionsFor(reader, lines)) {
    report::ApplyBuildIds(reader.features(), &objects_);
  }

  void Observe(const perfdata::Record& record) override {
    report::ApplyRecord(record, &spaces_);
    if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) {
      const int32_t pid = static_cast<int32_t>(mmap->pid);
      if (std::string_view dump = spaces_.JitDumpOf(pid); !dump.empty()) symbolizer_.SetJitDump(pid, std::string(dump));
    }
  }

  const Name& Find(const perfdata::Sample& sample, uint64_t address) override {
    const int32_t pid = static_cast<int32_t>(sample.pid);
    const bool kernel = symbol::AddressSpaces::IsKernel(address);
    const uint64_t generation = kernel ? spaces_.KernelGeneration() : spaces_.Generation(pid);
    if (cache_.size() > kMaxCached) cache_.clear();
    Entry& entry = cache_[{kernel ? -1 : pid, address}];
    if (entry.known && entry.generation == generation) return entry.name;
    entry = Entry{.known = true, .generation = generation, .name = Look(pid, address)};
    return entry.name;
  }

 private:
  static constexpr size_t kMaxCached = 1 << 18;
  struct Entry {
    bool known = false;
    uint64_t generation = 0;
    Name name;
  };

  static symbol::SymbolOptions OptionsFor(const perfdata::Reader& reader, bool lines) {
    symbol::SymbolOptions options;
    options.lines = lines;
    options.locate.other_host = report::RecordedElsewhere(reader.features());
    return options;
  }

  Name Look(int32_t pid, uint64_t address) {
    symbol::Location location = spaces_.Normalise(pid, address);
    const symbol::Function& function = symbolizer_[symbolizer_.FunctionAt(location)];
    if (!function.resolved()) return {};
    Name name{.symbol = function.name};
    if (auto vaddr = symbolizer_.VaddrOf(location)) name.offset = *vaddr - function.start;
    if (lines_) name.source = symbolizer_.LineAt(location);
    return name;
  }

  bool lines_;
  symbol::ObjectTable objects_;
  symbol::AddressSpaces spaces_;
  symbol::Symbolizer symbolizer_;
  absl::flat_hash_map<std::pair<int32_t, uint64_t>, Entry> cache_;
};

}  // namespace

std::unique_ptr<script::Symbols> MakeScriptSymbols(const perfdata::Reader& reader, bool lines) {
  return std::make_unique<ScriptSymbols>(reader, lines);
}

}  // namespace brink::cli
