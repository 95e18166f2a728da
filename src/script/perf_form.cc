// perf script's text, byte for byte (6.1; newer branch text on request).
#include <algorithm>
#include <array>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "script/script.h"
#include "script/tasks.h"

namespace brink::script {
namespace {

using perfdata::Record;
using perfdata::Sample;

constexpr const char* kTypes[] = {"", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL",
                                  "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ", "SERROR", "NO_TX", ""};
constexpr const char* kNewTypes[] = {"FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"};
constexpr const char* kSpecs[] = {"-", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"};
constexpr size_t kMaxFlags = 64;  // longest flags text, generously
// perf shows no more frames of a chain.
constexpr size_t kMaxFrames = 127;

const char* TypeName(uint64_t info) {
  uint32_t type = info >> 20 & 15;
  if (type != 15) return kTypes[type];
  uint32_t new_type = info >> 26 & 15;
  return new_type < std::size(kNewTypes) ? kNewTypes[new_type] : "";
}

// Flags texts repeat, and making them costs more than all the rest.
class FlagsCache {
 public:
  explicit FlagsCache(BrstackStyle style) : style_(style), entries_(kSize) {}
  // Puts the text at `out`, where kMaxFlags characters have room; returns its end.
  char* Put(char* out, uint64_t info) {
    Entry& entry = entries_[(info * 0x9e3779b97f4a7c15) >> (64 - kBits)];
    if (entry.info != info) [[unlikely]] Fill(&entry, info);
    std::memcpy(out, entry.text, 32);
    if (entry.size > 32) [[unlikely]] std::memcpy(out + 32, entry.text + 32, kMaxFlags - 32);
    return out + entry.size;
  }

 private:
  static constexpr int kBits = 11;
  static constexpr size_t kSize = size_t{1} << kBits;
  struct Entry {
    uint64_t info = UINT64_MAX;  // never asked for: kTextMask
    uint32_t size = 0;
    char text[kMaxFlags];
  };
  void Fill(Entry* entry, uint64_t info) {
    std::string text = BranchFlagsText(info, style_);
    entry->info = info;
    entry->size = static_cast<uint32_t>(std::min(text.size(), kMaxFlags));
    std::memset(entry->text, 0, kMaxFlags);
    std::memcpy(entry->text, text.data(), entry->size);
  }
  BrstackStyle style_;
  std::vector<Entry> entries_;
};

class PerfForm : public Form {
 public:
  PerfForm(const perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out)
      : reader_(reader), options_(options), symbols_(symbols), out_(*out), tasks_(options.fields & kIp), flags_(options.brstack) {}

  void Observe(const Record& record) override { tasks_.Observe(record); }

  void Put(const Record& record, const Sample& sample) override {
    const perfdata::EventInfo& event = reader_.events()[static_cast<size_t>(record.event)];
    const bool chain = event.attr.sample_type & perfdata::kSampleCallchain;
    Start(sample, chain);
    if (fields() & kPeriod) out_.DecRight(sample.period, 10), out_.Char(' ');
    if (fields() & kEvent) out_.Right(Shown(event.name), NameWidth()), out_.Text(": ");
    if (fields() & kAddr) out_.HexRight(sample.addr, 16), out_.Char(' ');
    if (fields() & kWeight) out_.DecRight(sample.weight, 16);
    if (fields() & kIp) chain ? PutChain(sample) : PutIp(sample);
    if (fields() & kBrstack) {
      PutStack(sample);
    } else if (fields() & kBrstacksym) {
      PutSymbolStack(sample);
    }
    out_.Char('\n');
  }

 private:
  uint32_t fields() const { return options_.fields; }

  // Names as perf prints them, unless a terminal would obey them: perf prints those, too. Valid until the next call.
  std::string_view Shown(std::string_view name) {
    if (std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; })) return name;
    shown_ = EscapeForTerminal(name);
    return shown_;
  }

  void Start(const Sample& sample, bool chain) {
    if (fields() & kComm) {
      // A chain begins on a line of its own, so nothing has to be lined up.
      out_.Right(Shown(tasks_.Comm(sample.tid)), chain && fields() & kIp ? 0 : 16);
      out_.Char(' ');
    }
    if ((fields() & kPid) && (fields() & kTid)) {
      out_.Right(std::to_string(static_cast<int32_t>(sample.pid)), 5);
      out_.Char('/');
      out_.Left(std::to_string(static_cast<int32_t>(sample.tid)), 5);
      out_.Char(' ');
    } else if (fields() & (kPid | kTid)) {
      out_.Right(std::to_string(static_cast<int32_t>(fields() & kPid ? sample.pid : sample.tid)), 5);
      out_.Char(' ');
    }
    if (fields() & kCpu) {
      out_.Char('[');
      // perf prints its unknown as a signed number.
      sample.cpu == UINT32_MAX ? out_.Text("-01") : out_.DecRight(sample.cpu, 3, '0');
      out_.Text("] ");
    }
    if (fields() & kTime) PutTime(sample.time);
  }

  void PutTime(uint64_t time) {
    const uint64_t seconds = time / 1'000'000'000, rest = time % 1'000'000'000;
    std::string whole = std::to_string(seconds);
    out_.Right(whole, 5);
    out_.Char('.');
    options_.nanoseconds ? out_.DecRight(rest, 9, '0') : out_.DecRight(rest / 1000, 6, '0');
    out_.Text(": ");
  }

  size_t NameWidth() {
    // All events of a file are known before its first sample; in a stream, too, but for strange ones.
    if (name_width_ == 0) {
      for (const auto& event : reader_.events()) name_width_ = std::max(name_width_, event.name.size());
    }
    return name_width_;
  }

  void PutSymbol(const Sample& sample, uint64_t address) {
    const std::string* name = symbols_ ? &symbols_->Find(sample, address).symbol : nullptr;
    out_.Text(!name || name->empty() ? std::string_view("[unknown]") : Shown(*name));
  }

  void PutIp(const Sample& sample) {
    out_.Char(' ');
    out_.HexRight(sample.ip, 16);
    if (fields() & kSym) out_.Char(' '), PutSymbol(sample, sample.ip);
  }

  void PutChain(const Sample& sample) {
    out_.Char('\n');
    bool user = true;  // until a marker says otherwise
    size_t frames = 0;
    for (uint64_t ip : sample.chain) {
      if (ip >= perfdata::kContextMax) {
        user = ip == perfdata::kContextUser;
        continue;
      }
      if (frames++ == kMaxFrames) break;
      out_.Char('\t');
      out_.HexRight(user ? tasks_.FileOffset(sample.pid, ip) : ip, 16);
      if (fields() & kSym) out_.Char(' '), PutSymbol(sample, ip);
      out_.Char('\n');
    }
  }

  void PutStack(const Sample& sample) {
    // One entry is at most " 0x" + 16 + "/0x" + 16 + "/" + flags.
    constexpr size_t kEntry = 48 + kMaxFlags;
    for (const BranchEntry& branch : sample.branches) {
      char* at = out_.Room(kEntry);
      std::memcpy(at, " 0x", 3);
      at = PutHex(at + 3, branch.from);
      std::memcpy(at, "/0x", 3);
      at = PutHex(at + 3, branch.to);
      out_.Commit(flags_.Put(at, branch.info & kTextMask));
    }
  }

  void PutSymbolStack(const Sample& sample) {
    for (const BranchEntry& branch : sample.branches) {
      PutSymbolWithOffset(sample, branch.from);
      out_.Char('/');
      PutSymbolWithOffset(sample, branch.to);
      out_.Commit(flags_.Put(out_.Room(kMaxFlags), branch.info & kTextMask));
    }
  }

  void PutSymbolWithOffset(const Sample& sample, uint64_t address) {
    static const Symbols::Name kNone;
    const Symbols::Name& name = symbols_ ? symbols_->Find(sample, address) : kNone;
    if (name.symbol.empty()) return out_.Text("[unknown]");
    out_.Text(Shown(name.symbol));
    out_.Text("+0x");
    out_.Hex(name.offset);
  }

  // Everything that the text shows: all but the privilege and the reserved bits, but with perf's "not taken".
  static constexpr uint64_t kTextMask = ((uint64_t{1} << 30) - 1) | uint64_t{1} << 33;

  const perfdata::Reader& reader_;
  const Options& options_;
  Symbols* symbols_;
  TextBuffer& out_;
  Tasks tasks_;
  FlagsCache flags_;
  size_t name_width_ = 0;
  std::string shown_;
};

}  // namespace

std::string BranchFlagsText(uint64_t info, BrstackStyle style) {
  const bool mispredicted = info & 1, predicted = info >> 1 & 1, not_taken = info >> 33 & 1;
  std::string event = predicted ? "P" : mispredicted ? "M" : "-";
  if (style == BrstackStyle::kNew && not_taken) event = (event == "-" ? "" : event) + "N";
  std::string out = absl::StrFormat("/%s/%c/%c/%d/%s", event, info >> 2 & 1 ? 'X' : '-', info >> 3 & 1 ? 'A' : '-',
                                    static_cast<int>(info >> 4 & 0xffff), TypeName(info));
  if (style == BrstackStyle::kNew) out += std::string("/") + kSpecs[info >> 24 & 3];
  return out + " ";
}

std::unique_ptr<Form> MakePerfForm(const perfdata::Reader& reader, const Options& options, Symbols* symbols, TextBuffer* out) {
  return std::make_unique<PerfForm>(reader, options, symbols, out);
}

}  // namespace brink::script
