#include "ptrace/hop_scan.h"

#include <algorithm>
#include <array>

namespace brink::ptrace {
namespace {

using decode::Flow;

// Instructions a scan looks at: straight code without any branch ends long before.
constexpr int kMaxInsns = 4096;

// Hands out code bytes, reading ahead.
class CodeReader {
 public:
  explicit CodeReader(decode::Memory& memory) : memory_(memory) {}

  std::span<const uint8_t> At(uint64_t ip) {
    if (ip < start_ || ip + decode::kMaxInsnBytes > start_ + size_) {
      start_ = ip;
      size_ = memory_.Read(ip, buffer_.data(), buffer_.size());
    }
    size_t offset = ip - start_;
    if (offset >= size_) return {};
    return std::span<const uint8_t>(buffer_).subspan(offset, std::min(size_ - offset, decode::kMaxInsnBytes));
  }

 private:
  decode::Memory& memory_;
  std::array<uint8_t, 256> buffer_;
  uint64_t start_ = 0;
  size_t size_ = 0;
};

class Scanner {
 public:
  Scanner(uint64_t ip, const PathState& state, size_t limit, decode::Memory& code, bool match_returns)
      : ip_(ip), limit_(limit), code_(code), match_returns_(match_returns) {
    path_.state = state;
  }

  Path Run() {
    for (int i = 0; i < kMaxInsns; ++i) {
      if (path_.branches.size() >= limit_) return Finish(Path::End::kLimit);
      auto insn = decode::Decode(code_.At(ip_), ip_);
      if (!insn) return Finish(Path::End::kUnreadable);
      path_.insn = *insn;
      if (!Follow(*insn)) return Finish(path_.end);
    }
    return Finish(Path::End::kUnreadable);
  }

  // The thread would meet a breakpoint at the end of the path before it gets there.
  bool PassedItsEnd() const { return std::ranges::find(matched_, path_.stop_ip) != matched_.end(); }

 private:
  // False: the path ends at this instruction, path_.end says how.
  bool Follow(const decode::Insn& insn) {
    uint64_t next = ip_ + insn.length;
    switch (insn.flow) {
      case Flow::kNext:
        if (insn.exclusive && !insn.stores) break;  // a stop before its store would make that fail, again and again
        path_.state.Apply(insn.stack);
        ip_ = next;
        return true;
      case Flow::kCall:
        path_.state.Push(next);
        [[fallthrough]];
      case Flow::kJump:
        Branch(insn.target, decode::KindOf(insn.flow));
        return true;
      case Flow::kRet:
        if (match_returns_) {
          if (auto back = path_.state.Pop()) {
            matched_.push_back(ip_);
            *path_.state.sp += static_cast<uint64_t>(insn.stack.delta);
            path_.assumed = true;
            Branch(*back, Kind::kRet);
            return true;
          }
        }
        path_.end = Path::End::kLive;
        return false;
      case Flow::kCond:
      case Flow::kIndJump:
      case Flow::kIndCall:
        path_.end = Path::End::kLive;
        return false;
      case Flow::kSyscall:
      case Flow::kOther: break;
    }
    path_.end = Path::End::kTerminal;
    return false;
  }

  void Branch(uint64_t to, Kind kind) {
    path_.branches.push_back({ip_, to, kind});
    ip_ = to;
  }

  Path Finish(Path::End end) {
    path_.end = end;
    path_.stop_ip = ip_;
    return path_;
  }

  Path path_;
  uint64_t ip_;
  size_t limit_;
  CodeReader code_;
  bool match_returns_;
  std::vector<uint64_t> matched_;  // addresses of the returns that were matched
};

}  // namespace

void PathState::Push(uint64_t return_ip) {
  if (!decode::kReturnsOnStack) return;
  if (!sp) {
    calls.clear();
    return;
  }
  *sp -= 8;
  // Whatever lay below the stack pointer is gone.
  while (!calls.empty() && calls.back().slot <= *sp) calls.pop_back();
  calls.push_back({*sp, return_ip});
}

std::optional<uint64_t> PathState::Pop() {
  if (!sp || !decode::kReturnsOnStack) return std::nullopt;
  while (!calls.empty() && calls.back().slot < *sp) calls.pop_back();
  if (calls.empty() || calls.back().slot != *sp) return std::nullopt;
  uint64_t back = calls.back().return_ip;
  calls.pop_back();
  *sp += 8;
  return back;
}

void PathState::Apply(const decode::StackEffect& effect) {
  if (effect.store_size > 0 && !sp) calls.clear();
  if (effect.store_size > 0 && sp) {
    uint64_t first = *sp + static_cast<uint64_t>(effect.store_offset);
    uint64_t last = first + effect.store_size;
    bool anywhere = effect.store_size == UINT16_MAX;
    std::erase_if(calls, [&](const Call& call) { return anywhere || (call.slot < last && first < call.slot + 8); });
  }
  if (!effect.known) sp.reset();
  else if (sp) *sp += static_cast<uint64_t>(static_cast<int64_t>(effect.delta));
}

Path ScanPath(uint64_t ip, const PathState& state, size_t limit, decode::Memory& code) {
  Scanner scanner(ip, state, limit, code, true);
  Path path = scanner.Run();
  bool confirmed = path.end == Path::End::kLive || path.end == Path::End::kTerminal;
  if (path.assumed && (!confirmed || scanner.PassedItsEnd())) path = Scanner(ip, state, limit, code, false).Run();
  return path;
}

}  // namespace brink::ptrace
