#include "symbol/jitdump.h"

#include <absl/container/flat_hash_map.h>

#include "base/strings.h"
#include "elf/cursor.h"

namespace brink::symbol {
namespace {

constexpr size_t kMaxName = 4096, kMostCodes = 150'000, kMostLines = 1'000'000;
enum : uint32_t { kLoad = 0, kMove = 1, kDebugInfo = 2, kClose = 3 };
// V8 adds the size of the ELF header that `perf inject` will put before the code to the address of every line (WriteDebugInfo
// in src/diagnostics/perf-jit.cc), other writers do not.
constexpr uint64_t kV8LineShift = 64;

bool IsV8Name(std::string_view name) {
  for (std::string_view kind : {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"}) {
    if (name.starts_with(kind)) return true;
  }
  return false;
}

class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  StatusOr<JitDump> Run() {
    elf::Cursor in(bytes_);
    uint32_t magic = in.U32();
    if (magic != 0x4A695444 && magic != 0x4454694A) return InvalidArgument("not a jitdump file");
    little_ = magic == 0x4A695444;
    in = elf::Cursor(bytes_, little_, 4);
    in.U32();
    uint32_t header_size = in.U32();
    dump_.machine = in.U32();
    in.U32();
    dump_.pid = in.U32();
    in.U64();
    in.U64();
    if (!in.ok() || header_size < 40) return DataLoss("jitdump header cut short");
    in.Seek(header_size);
    while (in.left() >= 16) {
      size_t at = in.at();
      uint32_t id = in.U32(), size = in.U32();
      uint64_t time = in.U64();
      if (size < 16) break;
      // A runtime writes in blocks: of the last record there may be a part only, and the hottest code may be in it.
      const size_t body = std::min<size_t>(size - 16, in.left());
      Record(id, time, at + 16, in.Bytes(body), body < size - 16);
    }
    return std::move(dump_);
  }

 private:
  void Record(uint32_t id, uint64_t time, size_t at, std::string_view body, bool cut) {
    elf::Cursor in(body, little_);
    if (cut && id != kLoad) return;
    if ((id == kLoad || id == kMove) && dump_.codes.size() >= kMostCodes) return void(++dump_.damaged);
    if (id == kLoad) Load(in, time, at);
    else if (id == kMove) Move(in, time);
    else if (id == kDebugInfo) DebugInfo(in);
    if (!in.ok() && !cut) ++dump_.damaged;
  }

  void Load(elf::Cursor& in, uint64_t time, size_t at) {
    JitCode code;
    code.time_ns = time;
    in.U32(), in.U32();
    in.U64();  // vma
    code.address = in.U64();
    code.size = in.U64();
    code.index = in.U64();
    code.name = std::string(in.CString().substr(0, kMaxName));
    code.code_offset = at + in.at();
    if (!in.ok()) return;
    if (code.size == 0 || code.address + code.size < code.address) return in.Fail();
    if (in.left() < code.size) code.code_offset = 0;
    // Debug information stands before the load that it belongs to.
    if (auto lines = pending_.find(code.address); lines != pending_.end()) {
      code.lines = std::move(lines->second);
      pending_.erase(lines);
      if (IsV8Name(code.name)) UndoV8Shift(&code);
    }
    by_index_[code.index] = dump_.codes.size();
    dump_.codes.push_back(std::move(code));
  }

  static void UndoV8Shift(JitCode* code) {
    for (const JitLine& line : code->lines) {
      if (line.address < code->address || line.address - code->address < kV8LineShift) return;
    }
    for (JitLine& line : code->lines) line.address -= kV8LineShift;
  }

  void Move(elf::Cursor& in, uint64_t time) {
    in.U32(), in.U32();
    in.U64();
    uint64_t old_address = in.U64(), new_address = in.U64(), size = in.U64(), index = in.U64();
    auto found = by_index_.find(index);
    if (!in.ok() || found == by_index_.end() || size == 0 || new_address + size < new_address) return in.Fail();
    // A dump of many moves must not multiply what it moves: lines go along, and copied names have a budget.
    JitCode& old = dump_.codes[found->second];
    JitCode moved = old;
    old.lines.clear();
    if (moved_names_ > bytes_.size()) moved.name.clear();
    moved_names_ += moved.name.size();
    for (JitLine& line : moved.lines) line.address += new_address - old_address;
    moved.time_ns = time;
    moved.address = new_address;
    moved.size = std::min(size, moved.size);
    found->second = dump_.codes.size();
    dump_.codes.push_back(std::move(moved));
  }

  void DebugInfo(elf::Cursor& in) {
    uint64_t address = in.U64(), count = in.U64();
    std::vector<JitLine> lines;
    std::string_view previous;
    for (uint64_t i = 0; i < count && in.ok() && lines_ < kMostLines; ++i) {
      JitLine line;
      line.address = in.U64();
      line.line = in.U32();
      in.U32();  // discriminator
      std::string_view name = in.CString();
      if (name == std::string_view("\xff", 1)) name = previous;  // "as before"
      previous = name;
      if (!in.ok()) break;
      // node 18 writes memory instead of file names: a line of an unknown file says nothing.
      if (name.empty() || EscapeForTerminal(name) != name) continue;
      line.file = FileIndex(name);
      lines.push_back(line);
      ++lines_;
    }
    if (in.ok()) pending_[address] = std::move(lines);
  }

  uint32_t FileIndex(std::string_view name) {
    auto [it, fresh] = files_.try_emplace(std::string(name.substr(0, kMaxName)), static_cast<uint32_t>(dump_.files.size()));
    if (fresh) dump_.files.push_back(it->first);
    return it->second;
  }

  std::string_view bytes_;
  bool little_ = true;
  size_t moved_names_ = 0, lines_ = 0;
  JitDump dump_;
  absl::flat_hash_map<uint64_t, std::vector<JitLine>> pending_;
  absl::flat_hash_map<uint64_t, size_t> by_index_;
  absl::flat_hash_map<std::string, uint32_t> files_;
};

}  // namespace

StatusOr<JitDump> ParseJitDump(std::string_view bytes) { return Parser(bytes).Run(); }

}  // namespace brink::symbol
