// What handing over the branches of a walk costs the program that walked: written whole into a ring, or summed in the kernel.
// usage: kernel_sum RECORDING.brstack [DEPTH...]      (brink script -F brstack -i brink.data > RECORDING.brstack)
// Each depth: the three ways in turn, the CPU's caches filled with other data before each turn as the walked program does.
#include <bpf/bpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernel_sum.skel.h"

namespace {

constexpr size_t kMost = 1 << 18;

struct Branch {
  uint64_t from, to, flags;
};

// Oldest first, as walks make them; the listing has the newest first.
std::vector<Branch> Read(const char* path) {
  std::vector<Branch> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && all.size() < kMost;) {
    std::vector<Branch> stack;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      Branch branch = {};
      if (std::sscanf(word.c_str(), "%" SCNx64 "/%" SCNx64, &branch.from, &branch.to) == 2) stack.push_back(branch);
    }
    all.insert(all.end(), stack.rbegin(), stack.rend());
  }
  return all;
}

// 16 MiB read and written: what a sampled program does to the caches between two samples.
void Displace() {
  static std::vector<uint64_t> other(2 << 20);
  for (size_t i = 0; i < other.size(); i += 8) other[i] += i;
}

uint64_t NsOf(kernel_sum_bpf* bpf, uint32_t first, uint32_t depth, uint32_t mode, bool cold) {
  bpf->bss->first = first;
  bpf->bss->depth = depth;
  bpf->bss->mode = mode;
  bpf->bss->ns = 0;
  if (cold) Displace();
  LIBBPF_OPTS(bpf_test_run_opts, options);
  if (bpf_prog_test_run_opts(bpf_program__fd(bpf->progs.hand_over), &options)) std::exit((std::perror("test run"), 1));
  return bpf->bss->ns;
}

uint64_t Median(std::vector<uint64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int Consumed(void*, void*, size_t) { return 0; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: kernel_sum RECORDING.brstack [DEPTH...]\n"), 2;
  const std::vector<Branch> branches = Read(argv[1]);
  if (branches.size() < 4096) return std::fprintf(stderr, "%s: %zu branches; some thousand are wanted\n", argv[1], branches.size()), 1;
  kernel_sum_bpf* bpf = kernel_sum_bpf__open_and_load();
  if (!bpf) return std::perror("load"), 1;
  void* map = mmap(nullptr, kMost * sizeof(Branch), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(bpf->maps.branches), 0);
  if (map == MAP_FAILED) return std::perror("mmap"), 1;
  for (size_t i = 0; i < kMost; ++i) static_cast<Branch*>(map)[i] = branches[i % branches.size()];
  ring_buffer* ring = ring_buffer__new(bpf_map__fd(bpf->maps.ring), Consumed, nullptr, nullptr);
  std::vector<uint32_t> depths;
  for (int i = 2; i < argc; ++i) depths.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
  if (depths.empty()) depths = {32, 128, 256, 1024, 2048};
  std::printf("%zu branches of %s\n| depth | caches | ring, ns a branch | sums, ns a branch |\n|---|---|---|---|\n", branches.size(), argv[1]);
  for (uint32_t depth : depths) {
    // Every key exists before it is timed: the steady state.
    for (uint32_t at = 0; at + 4096 < branches.size(); at += depth) NsOf(bpf, at, depth, 2, false);
    for (bool cold : {false, true}) {
      std::map<uint32_t, std::vector<uint64_t>> seen;
      uint32_t at = 0;
      for (int turn = 0; turn < (cold ? 300 : 3000); ++turn, at = (at + depth * 7) % static_cast<uint32_t>(branches.size() - 4095)) {
        for (uint32_t mode : {0u, 1u, 2u}) seen[mode].push_back(NsOf(bpf, at, depth, mode, cold));
        ring_buffer__consume(ring);
      }
      const double nothing = static_cast<double>(Median(seen[0]));
      std::printf("| %u | %s | %.1f | %.1f |\n", depth, cold ? "displaced" : "warm", (static_cast<double>(Median(seen[1])) - nothing) / depth,
                  (static_cast<double>(Median(seen[2])) - nothing) / depth);
    }
  }
  if (bpf->bss->failed) std::printf("%llu hand-overs failed\n", static_cast<unsigned long long>(bpf->bss->failed));
  ring_buffer__free(ring);
  kernel_sum_bpf__destroy(bpf);
  return 0;
}
