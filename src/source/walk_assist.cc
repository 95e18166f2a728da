#include "source/walk_assist.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/thread.h"

namespace brink {
namespace {

constexpr uint32_t kRingBytes = 64 << 10;  // a miss is 4 KiB, and one walk waits at a time
constexpr int kPriority = 1;
// Where the compacted form begins: behind the legacy area and the header.
constexpr uint32_t kExtended = 576;

bool BecomeRealTime() {
  sched_param param{};
  param.sched_priority = kPriority;
  return ::sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

}  // namespace

struct WalkAssist::Helper {
  ~Helper() {
    if (thread.joinable()) thread.join();
    ring_buffer__free(ring);
  }
  int cpu = 0;
  UniqueFd map, wake;
  ring_buffer* ring = nullptr;
  const Handler* handler = nullptr;
  std::thread thread;
};

WalkAssist::WalkAssist(Handler handler) : handler_(std::move(handler)) {}

WalkAssist::~WalkAssist() {
  stop_ = true;
  for (auto& helper : helpers_) ::eventfd_write(helper->wake.get(), 1);
  helpers_.clear();
}

bool WalkAssist::Permitted() {
  bool permitted = false;
  auto trial = StartThread("a real-time thread", [&] { permitted = BecomeRealTime(); });
  if (trial.ok()) trial->join();
  return permitted;
}

brink_walk_assist WalkAssist::Configuration() {
  brink_walk_assist config{};
  config.lift = 1;
#if defined(__x86_64__)
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return config;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint64_t enabled = (uint64_t{high} << 32 | low) & BRINK_XSTATE_LOW;
  uint32_t compact = kExtended;
  for (uint32_t i = 2; i < 8; ++i) {
    if (!(enabled >> i & 1) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d)) continue;
    if (c & 2) compact = (compact + 63) & ~63u;
    const int part = i == 2 ? BRINK_XPART_AVX : i == 5 ? BRINK_XPART_MASKS : i == 6 ? BRINK_XPART_ZMM_HI : i == 7 ? BRINK_XPART_HI_ZMM : -1;
    if (part >= 0) {
      config.standard[part] = b;
      config.compact[part] = compact;
    }
    compact += a;
  }
  config.compact_low = enabled;
  const bool compacts = __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && (a & 8);
  config.vectors = compacts ? BRINK_VECTORS_COMPACT : BRINK_VECTORS_EITHER;
#endif
  return config;
}

StatusOr<std::unique_ptr<WalkAssist>> WalkAssist::Start(const bpf_map* rings, Handler handler) {
  std::unique_ptr<WalkAssist> assist(new WalkAssist(std::move(handler)));
  const uint32_t cpus = bpf_map__max_entries(rings);
  for (uint32_t cpu = 0; cpu < cpus; ++cpu) {
    auto helper = std::make_unique<Helper>();
    helper->cpu = static_cast<int>(cpu);
    helper->handler = &assist->handler_;
    helper->map = UniqueFd(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "walk_assist", 0, 0, kRingBytes, nullptr));
    if (!helper->map.valid()) return ErrnoError(errno, "a ring for walks that wait");
    helper->wake = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!helper->wake.valid()) return ErrnoError(errno, "eventfd");
    auto sample = [](void* context, void* data, size_t size) {
      auto* self = static_cast<Helper*>(context);
      if (size > sizeof(brink_rec_header)) (*self->handler)({static_cast<const std::byte*>(data), size});
      return 0;
    };
    helper->ring = ring_buffer__new(helper->map.get(), sample, helper.get(), nullptr);
    if (!helper->ring) return ErrnoError(errno, "map a ring for walks that wait");
    ASSIGN_OR_RETURN(helper->thread, StartThread("a thread that lifts for waiting walks", [raw = helper.get(), stop = &assist->stop_] { Loop(raw, stop); }));
    int fd = helper->map.get();
    // Before the thread listens nobody may wait for it; but what is in the ring then is worked off, too.
    if (bpf_map_update_elem(bpf_map__fd(rings), &cpu, &fd, BPF_ANY)) {
      int error = errno;
      assist->helpers_.push_back(std::move(helper));
      return ErrnoError(error, "give a CPU its ring");
    }
    assist->helpers_.push_back(std::move(helper));
  }
  return assist;
}

void WalkAssist::Loop(Helper* helper, const std::atomic<bool>* stop) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(helper->cpu), &set);
  // Elsewhere it would preempt nobody's walk: then it only lifts.
  if (::sched_setaffinity(0, sizeof set, &set) == 0) BecomeRealTime();
  pollfd fds[2] = {{.fd = ring_buffer__epoll_fd(helper->ring), .events = POLLIN, .revents = 0}, {.fd = helper->wake.get(), .events = POLLIN, .revents = 0}};
  while (!*stop) {
    ring_buffer__consume(helper->ring);
    ::poll(fds, 2, -1);
  }
}

}  // namespace brink
