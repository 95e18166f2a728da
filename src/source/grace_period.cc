#include "source/grace_period.h"

#include <bpf/bpf.h>

#include <cstdint>

namespace brink {

bool GracePeriod::Wait() {
  if (!outer_.valid()) {
    inner_ = UniqueFd(bpf_map_create(BPF_MAP_TYPE_ARRAY, "brink_inner", sizeof(uint32_t), sizeof(uint32_t), 1, nullptr));
    if (!inner_.valid()) return false;
    LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = static_cast<uint32_t>(inner_.get()));
    outer_ = UniqueFd(bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "brink_outer", sizeof(uint32_t), sizeof(uint32_t), 1, &options));
    if (!outer_.valid()) return false;
  }
  const uint32_t key = 0, value = static_cast<uint32_t>(inner_.get());
  return bpf_map_update_elem(outer_.get(), &key, &value, BPF_ANY) == 0;
}

}  // namespace brink
