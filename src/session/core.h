// The BPF side that every session has: shared maps, counters, the task set and its tracepoint programs.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "brink/abi/filter.h"
#include "brink/abi/session.h"

struct bpf_link;
struct bpf_object;
struct tasks_bpf;

namespace brink {

using BpfCounters = std::array<uint64_t, BRINK_CNT_MAX>;

// Quiets libbpf, keeping its last words for error messages. Called by BpfCore::Load; harmless to repeat.
void CaptureLibbpfMessages();
// The last warning lines of libbpf on this thread, shortened to one line, and forgotten. "" when there are none.
std::string TakeLibbpfMessage();
// An error of loading BPF with its remedy: missing rights (with the setcap line), no BTF, the verifier's last line.
Status BpfLoadError(int error, std::string_view what);

class BpfCore {
 public:
  struct Options {
    brink_bpf_config config = {};
    size_t ring_bytes = 8u << 20;  // a power of two of pages
    bool track_tasks = false;      // attach the fork, exec and exit programs
    // The filter of objects that have a brink_filter_prog; the config's flags say which of its programs run.
    std::optional<brink_filter_prog> filter;
  };
  static StatusOr<std::unique_ptr<BpfCore>> Load(const Options& options);
  ~BpfCore();
  BpfCore(const BpfCore&) = delete;
  BpfCore& operator=(const BpfCore&) = delete;

  // See SourceContext::Share.
  Status Share(bpf_object* object) const;
  // Attaches the task programs. FAILED_PRECONDITION where raw tracepoints cannot be had.
  Status Attach();
  void Detach();

  // A process (or thread, by the target mode) joins the set. Its children follow where the mode says so.
  Status AddTask(pid_t id, uint64_t start_ticks);
  Status SetCgroup(uint32_t slot, int cgroup_fd);
  // Whether the set holds `id` now.
  bool HasTask(pid_t id) const;

  int ring_fd() const;
  size_t ring_bytes() const { return options_.ring_bytes; }
  // Sums over all CPUs.
  BpfCounters ReadCounters() const;
  const brink_bpf_config& config() const { return options_.config; }

 private:
  BpfCore() = default;
  Options options_;
  tasks_bpf* skeleton_ = nullptr;
  std::vector<bpf_link*> links_;
};

// Writes `value` over the read-only variable `name` of an object that is open but not loaded. NOT_FOUND: no such
// variable, or of another size.
Status SetRodata(bpf_object* object, const char* name, const void* value, size_t size);

}  // namespace brink
