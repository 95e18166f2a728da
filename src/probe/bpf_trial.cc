#include "probe/bpf_trial.h"

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

#include <absl/strings/str_cat.h>
#include <bpf/bpf.h>

#include "base/strings.h"
#include "probe.skel.h"
#include "probe_task_work.skel.h"
#include "probe_task_work_impl.skel.h"

namespace brink::probe {
namespace {

// libbpf prints; a probe that fails is an answer and not a message. What it said is kept for the reason.
thread_local std::string* g_log = nullptr;

int KeepLog(libbpf_print_level level, const char* format, va_list args) {
  if (!g_log || level == LIBBPF_DEBUG) return 0;
  char line[1024];
  std::vsnprintf(line, sizeof line, format, args);
  g_log->append(line);
  return 0;
}

class LogCapture {
 public:
  LogCapture() : before_(libbpf_set_print(KeepLog)) { g_log = &text_; }
  ~LogCapture() {
    g_log = nullptr;
    libbpf_set_print(before_);
  }
  // The most telling line: the verifier's last words stand before its statistics.
  std::string LastLine() const {
    std::string best;
    for (std::string_view line : Split(text_, '\n')) {
      line = Trim(line);
      if (line.empty() || line.find("processed ") == 0 || line.find("-- ") != line.npos || line.find("libbpf: failed") == 0) continue;
      if (line.find("libbpf: prog '") == 0 && line.find("BPF program load failed") != line.npos) continue;
      best = line;
    }
    return EscapeForTerminal(best);
  }

 private:
  std::string text_;
  libbpf_print_fn_t before_;
};

struct ObjectCloser {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

std::pair<const void*, size_t> Bytes(ProbeForm form) {
  size_t size = 0;
  const void* data = nullptr;
  switch (form) {
    case ProbeForm::kCommon: data = probe_bpf__elf_bytes(&size); break;
    case ProbeForm::kTaskWork: data = probe_task_work_bpf__elf_bytes(&size); break;
    case ProbeForm::kTaskWorkImpl: data = probe_task_work_impl_bpf__elf_bytes(&size); break;
  }
  return {data, size};
}

bpf_map* SectionMap(bpf_object* object, const char* suffix) {
  bpf_map* map;
  bpf_object__for_each_map(map, object) {
    std::string_view name = bpf_map__name(map);
    if (name.size() >= strlen(suffix) && name.substr(name.size() - strlen(suffix)) == suffix) return map;
  }
  return nullptr;
}

struct Rodata {
  uint32_t tgid;
  uint32_t pad;
  uint64_t addr;
};
static_assert(offsetof(probe_bpf::probe_bpf__rodata, probe_tgid) == 0 && offsetof(probe_bpf::probe_bpf__rodata, probe_addr) == 8);
static_assert(offsetof(probe_bpf::probe_bpf__bss, probe_out) == 0);

// The objects' read-only data begins with common.h's tgid; the common form adds the address.
bool Configure(bpf_object* object, const Trial& trial) {
  bpf_map* map = SectionMap(object, ".rodata");
  if (!map) return false;
  Rodata data = {static_cast<uint32_t>(::getpid()), 0, trial.address};
  size_t size = 0;
  const void* now = bpf_map__initial_value(map, &size);
  std::string bytes(static_cast<const char*>(now), size);
  std::memcpy(bytes.data(), &data, std::min(size, trial.form == ProbeForm::kCommon ? sizeof data : sizeof data.tgid));
  return bpf_map__set_initial_value(map, bytes.data(), size) == 0;
}

// By system call: without a skeleton libbpf does not map .bss.
brink_probe_out ReadOut(bpf_object* object) {
  brink_probe_out out = {};
  bpf_map* map = SectionMap(object, ".bss");
  std::string value(map ? bpf_map__value_size(map) : 0, '\0');
  uint32_t zero = 0;
  if (value.size() >= sizeof out && bpf_map_lookup_elem(bpf_map__fd(map), &zero, value.data()) == 0) std::memcpy(&out, value.data(), sizeof out);
  return out;
}

}  // namespace

TrialResult RunTrial(const Trial& trial) {
  LogCapture log;
  TrialResult result;
  auto fail = [&](const char* stage, int error) {
    result.failed = TrialError{stage, error, log.LastLine()};
    return result;
  };
  auto [bytes, size] = Bytes(trial.form);
  std::unique_ptr<bpf_object, ObjectCloser> object(bpf_object__open_mem(bytes, size, nullptr));
  if (!object) return fail("open", errno);
  bpf_program* program = bpf_object__find_program_by_name(object.get(), trial.program);
  if (!program || !Configure(object.get(), trial)) return fail("open", ENOENT);
  bpf_program__set_autoload(program, true);
  if (trial.prepare) trial.prepare(program);
  if (int error = bpf_object__load(object.get()); error != 0) return fail("load", -error);
  if (trial.attach) {
    auto attached = trial.attach(program);
    if (!attached.ok()) {
      fail("attach", ErrnoOf(attached.status()));
      if (result.failed->log.empty()) result.failed->log = Message(attached.status());
      return result;
    }
    if (trial.trigger) trial.trigger();
    if (trial.look && !trial.look(object.get()).ok()) return fail("run", EIO);
    result.out = ReadOut(object.get());
    return result;
  }
  LIBBPF_OPTS(bpf_test_run_opts, run);
  if (int error = bpf_prog_test_run_opts(bpf_program__fd(program), &run); error != 0) return fail("run", -error);
  if (trial.look && !trial.look(object.get()).ok()) return fail("run", EIO);
  result.out = ReadOut(object.get());
  return result;
}

Finding FindingOf(Prober& prober, const TrialResult& result, const CauseOf& known_cause) {
  if (!result.failed) {
    if (result.out.fired) return Finding::On();
    return Finding::Off("loads and attaches, but never fires");
  }
  const TrialError& error = *result.failed;
  bool capable = prober.facts.caps.BpfCapable() && prober.facts.caps.PerfmonCapable();
  if (!capable && (error.error == EPERM || error.error == EACCES)) {
    return Finding::Off("needs CAP_BPF and CAP_PERFMON", SetcapLine());
  }
  if (known_cause) {
    Finding known = known_cause(error);
    if (!known.reason.empty()) return known;
  }
  std::string reason = absl::StrCat(error.stage, " fails: ", error.error ? ErrnoText(error.error) : "no reason given");
  if (!error.log.empty()) absl::StrAppend(&reason, " (", error.log.substr(0, 200), ")");
  return Finding::Off(std::move(reason));
}

StatusOr<Attached> AttachSelf(bpf_program* program) {
  Attached attached;
  attached.link.reset(bpf_program__attach(program));
  if (!attached.link) return ErrnoError(errno, bpf_program__section_name(program));
  return attached;
}

StatusOr<Attached> AttachClock(bpf_program* program) {
  Attached attached;
  ASSIGN_OR_RETURN(attached.fd, OpenOwnEvent("cpu-clock", {.period = 500'000, .disabled = false}));
  attached.link.reset(bpf_program__attach_perf_event(program, attached.fd.get()));
  if (!attached.link) return ErrnoError(errno, "cpu-clock");
  attached.fd.Release();  // the link owns it now
  return attached;
}

void CallGetppid() {
  for (int i = 0; i < 4; ++i) ::syscall(SYS_getppid);
}

const char* GetppidSymbol() {
#if defined(__x86_64__)
  return "__x64_sys_getppid";
#elif defined(__aarch64__)
  return "__arm64_sys_getppid";
#else
  return "sys_getppid";
#endif
}

StatusOr<FilePlace> PlaceOf(const void* function) {
  ASSIGN_OR_RETURN(std::string maps, ReadFile("/proc/self/maps"));
  uint64_t address = reinterpret_cast<uint64_t>(function);
  for (std::string_view line : Split(maps, '\n')) {
    unsigned long long start, end, offset;
    int path_at = 0;
    std::string text(line);
    if (std::sscanf(text.c_str(), "%llx-%llx %*s %llx %*s %*s %n", &start, &end, &offset, &path_at) < 3) continue;
    if (address < start || address >= end) continue;
    return FilePlace{"/proc/self/exe", address - start + offset};
  }
  return NotFound("the function is in no mapping");
}

}  // namespace brink::probe
