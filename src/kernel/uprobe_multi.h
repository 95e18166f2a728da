// BPF_LINK_CREATE for uprobe_multi by hand: libbpf 1.1 and its headers do not know it. The kernel's layout, in full.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brink {

struct LinkCreateUprobeMulti {
  uint32_t prog_fd, target_fd, attach_type, flags;
  uint64_t path, offsets, ref_ctr_offsets, cookies;
  uint32_t cnt, multi_flags, pid, pad;
};
static_assert(sizeof(LinkCreateUprobeMulti) == 64 && offsetof(LinkCreateUprobeMulti, cnt) == 48);
// The attach type.
inline constexpr int kTraceUprobeMulti = 48;

}  // namespace brink
