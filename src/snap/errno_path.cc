#include "snap/errno_path.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "snap/print.h"
#include "snap/print_parts.h"

namespace brink::snap {
namespace {

bool IsTrampoline(const std::string& symbol) { return symbol.starts_with("bpf_trampoline_"); }

bool IsSyscall(const Capture& capture) { return capture.context.flags & BRINK_SNAP_HAS_SYSCALL; }

// The result of `function` in this path; functions are called once on the way to an error, as a rule, and the innermost counts.
const Capture* ResultOf(std::span<const Capture> path, const std::string& function) {
  for (const Capture& capture : path) {
    if (!IsSyscall(capture) && capture.place.symbol == function) return &capture;
  }
  return nullptr;
}

// Branches of the function that decided and of what it called, up to where it was entered.
std::string DecidingBranches(const Capture& capture, const PrintOptions& options, const Painter& paint, const std::string& indent) {
  const std::string& function = capture.place.symbol;
  std::string out;
  size_t shown = 0;
  for (const NamedBranch& branch : capture.branches) {
    if (shown >= options.most_branches) break;
    const bool inside = branch.from.symbol == function;
    // A function that is traced by trampoline is called from there, behind its own first instructions.
    const bool enters = branch.to.symbol == function && (branch.to.offset == 0 || (branch.kind == Kind::kCall && IsTrampoline(branch.from.symbol)));
    if (!inside && !enters && shown == 0) continue;  // the way out to our own program
    const std::string target = branch.to.symbol == branch.from.symbol && !branch.to.symbol.empty() ? absl::StrFormat("+0x%x", branch.to.offset) : PlaceText(branch.to);
    out += indent + absl::StrFormat("#%-3d %s+0x%x %s -> %s", shown++, EscapeForTerminal(branch.from.symbol), branch.from.offset, KindName(branch.kind), target);
    if (!branch.from.line.empty()) out += paint.Dim("  " + EscapeForTerminal(branch.from.line));
    out += "\n";
    if (enters) break;
  }
  if (out.empty()) return indent + paint.Dim(capture.branches.empty() ? "no branches: " + EscapeForTerminal(capture.no_branches) : "its branches are not in reach: the record ends before it") + "\n";
  return out;
}

}  // namespace

std::optional<std::vector<Capture>> ErrnoPaths::Add(Capture capture) {
  const uint32_t tid = capture.head.tid;
  if (!IsSyscall(capture)) {
    if (!open_.contains(tid) && open_.size() >= kMostThreads) {
      overruled_ += open_.begin()->second.size();
      open_.erase(open_.begin());
    }
    std::vector<Capture>& open = open_[tid];
    if (open.size() >= kMostOpen) {
      open.erase(open.begin());
      ++overruled_;
    }
    open.push_back(std::move(capture));
    return std::nullopt;
  }
  std::vector<Capture> path;
  if (auto it = open_.find(tid); it != open_.end()) {
    const bool timed = capture.context.flags & BRINK_SNAP_HAS_DURATION;
    const uint64_t begin = timed ? capture.head.time_ns - std::min<uint64_t>(capture.head.time_ns, capture.context.duration_ns) : 0;
    for (Capture& inner : it->second) {
      // Another error than the call's was dealt with on the way.
      if (inner.head.time_ns >= begin && inner.context.ret == capture.context.ret) path.push_back(std::move(inner));
      else ++overruled_;
    }
    open_.erase(it);
  }
  path.push_back(std::move(capture));
  return path;
}

std::string ErrnoPathText(std::span<const Capture> path, const PrintOptions& options) {
  if (path.empty()) return "";
  const Painter paint(options.colour);
  const Capture& call = path.back();
  std::string out = paint.Bold(WallTime(call.head.time_ns, options, false) + "  " + CallText(call)) + " = " + paint.Red(ResultText(call.context.ret)) + "  " + TaskText(call) + "\n";
  if (path.size() == 1) {
    out += paint.Dim("  none of the armed functions returned this error") + "\n";
  }
  const Capture& inner = path.front();
  std::vector<std::string> frames;  // outermost first
  for (auto it = inner.kernel_chain.rbegin(); it != inner.kernel_chain.rend(); ++it) {
    // Our own trampolines, and the function that each stands in a second time.
    if (!IsTrampoline(it->symbol) && (frames.empty() || frames.back() != it->symbol)) frames.push_back(it->symbol);
  }
  // The function that decided has been left when its result is seen.
  if (path.size() > 1 && (frames.empty() || frames.back() != inner.place.symbol)) frames.push_back(inner.place.symbol);
  std::string indent = "  ";
  for (size_t i = 0; i < frames.size(); ++i) {
    const Capture* result = path.size() > 1 ? ResultOf(path, frames[i]) : nullptr;
    const bool decided = path.size() > 1 && i + 1 == frames.size();
    out += paint.Cyan("  k") + indent + EscapeForTerminal(frames[i].empty() ? "?" : frames[i]);
    if (result) out += " = " + paint.Red(ResultText(result->context.ret));
    if (decided) out += paint.Bold("   <- said no first");
    out += "\n";
    indent += "  ";
    if (decided) out += DecidingBranches(inner, options, paint, "   " + indent);
  }
  for (const NamedAddress& at : call.user_chain) out += "  u  " + WithObject(at, paint) + "\n";
  return out + "\n";
}

}  // namespace brink::snap
