// Kernel functions: kprobe.multi where there are several and the kernel has it, single kprobes elsewhere.
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "session/core.h"
#include "snap/kernel_probe_error.h"
#include "snap/trigger_object.h"
#include "symbol/kallsyms.h"

namespace brink::snap {
namespace {

// Why a kernel function cannot be probed.
std::string WhyNot(const std::string& name) {
  const std::string absent = "no kernel function '" + EscapeForTerminal(name) + "'";
  auto text = ReadFile("/proc/kallsyms");
  auto symbols = text.ok() ? symbol::ParseKallsyms(*text) : StatusOr<symbol::Kallsyms>(text.status());
  if (!symbols.ok()) return absent;
  std::vector<std::string> names;
  bool there = false;
  for (const symbol::KernelSymbol& symbol : symbols->symbols) {
    names.push_back(symbol.name);
    there = there || symbol.name == name;
  }
  if (there) return "the kernel function '" + EscapeForTerminal(name) + "' is there, but may not be probed (noinstr, __kprobes, built without a trace entry, or not in the kernel's types)";
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text_out;
  for (const std::string& near : NearestNames(name, names)) text_out += (text_out.empty() ? "; nearest: " : ", ") + near;
  return absent + " (inlined, or not in this kernel)" + text_out;
}

}  // namespace

Status KernelProbeError(int error, const std::string& kind, const std::string& function) {
  if (error == ENOENT || error == EINVAL || error == ESRCH) return NotFound(kind + ": " + WhyNot(function));
  if (error == EOPNOTSUPP) return Unimplemented(kind + ": this kernel is built without kprobes; use a raw tracepoint, a tracepoint or a uprobe");
  return ErrnoError(error, kind + " at " + function);
}

Status TriggerObject::AttachKernelMulti(bpf_program* program, bool at_return) {
  std::vector<const char*> names;
  for (const std::string& function : plan_.functions) names.push_back(function.c_str());
  LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = names.data(), .cnt = names.size(), .retprobe = at_return);
  return Keep(bpf_program__attach_kprobe_multi_opts(program, nullptr, &options), "kprobe.multi");
}

Status TriggerObject::AttachKernel() {
  const bool at_return = plan_.trigger.kind == TriggerKind::kKretprobe;
  if (multi_) {
    how_ = "kprobe.multi on " + std::to_string(plan_.functions.size()) + " functions";
    if (entry_) RETURN_IF_ERROR(AttachKernelMulti(entry_, false));
    return AttachKernelMulti(main_, at_return);
  }
  if (plan_.functions.size() > kMostSingleProbes) {
    return ResourceExhausted(std::to_string(plan_.functions.size()) + " functions match, and this kernel has no kprobe.multi: at most " + std::to_string(kMostSingleProbes) + " single kprobes are set; narrow the glob");
  }
  if (plan_.functions.size() > 1) how_ = std::to_string(plan_.functions.size()) + " single kprobes (no kprobe.multi here)";
  for (const std::string& function : plan_.functions) {
    for (bpf_program* program : {entry_, main_}) {
      if (!program) continue;
      LIBBPF_OPTS(bpf_kprobe_opts, options, .offset = plan_.trigger.offset, .retprobe = at_return && program == main_);
      bpf_link* link = bpf_program__attach_kprobe_opts(program, function.c_str(), &options);
      if (!link) {
        int error = errno;
        (void)TakeLibbpfMessage();
        return KernelProbeError(access("/sys/bus/event_source/devices/kprobe/type", F_OK) != 0 ? EOPNOTSUPP : error, std::string(TriggerKindName(plan_.trigger.kind)), function);
      }
      links_.push_back(link);
    }
  }
  return OkStatus();
}

}  // namespace brink::snap
