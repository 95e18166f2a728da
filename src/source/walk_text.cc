#include "source/walk_text.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

namespace brink {
namespace {

// What nearly every walk goes through, and how much of it: the rest of a function is for rare instructions.
constexpr struct {
  std::string_view name;
  uint32_t most;
} kHot[] = {{"walk_task_step", 10240}, {"walk_callback", 10240}, {"walk_check_line", 2048}, {"walk_enter_line", 1024}, {"walk_translate", 2048},
            {"walk_by_content", 2048}, {"walk_store", 2560},     {"walk_fill", 2048},       {"walk_load", 1536}};

struct Function {
  uint64_t address = 0;
  uint32_t size = 0;
};

// Name -> place of the program's functions. Empty when the kernel does not tell.
std::vector<std::pair<std::string, Function>> FunctionsOf(int fd) {
  bpf_prog_info info{};
  __u32 length = sizeof info;
  if (bpf_obj_get_info_by_fd(fd, &info, &length) || info.nr_jited_ksyms == 0 || info.nr_func_info != info.nr_jited_ksyms || info.btf_id == 0) return {};
  const size_t count = info.nr_jited_ksyms, record = info.func_info_rec_size;
  if (record < sizeof(bpf_func_info)) return {};
  std::vector<__u64> places(count);
  std::vector<__u32> sizes(count);
  std::vector<std::byte> names(count * record);
  bpf_prog_info wanted{};
  wanted.nr_jited_ksyms = wanted.nr_jited_func_lens = wanted.nr_func_info = static_cast<__u32>(count);
  wanted.func_info_rec_size = static_cast<__u32>(record);
  wanted.jited_ksyms = reinterpret_cast<uintptr_t>(places.data());
  wanted.jited_func_lens = reinterpret_cast<uintptr_t>(sizes.data());
  wanted.func_info = reinterpret_cast<uintptr_t>(names.data());
  length = sizeof wanted;
  if (bpf_obj_get_info_by_fd(fd, &wanted, &length) || wanted.nr_jited_ksyms != count || wanted.nr_jited_func_lens != count) return {};
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__load_from_kernel_by_id(info.btf_id), &btf__free);
  if (!types) return {};
  std::vector<std::pair<std::string, Function>> functions;
  for (size_t i = 0; i < count; ++i) {
    bpf_func_info entry;
    std::memcpy(&entry, names.data() + i * record, sizeof entry);
    const btf_type* type = btf__type_by_id(types.get(), entry.type_id);
    const char* name = type ? btf__name_by_offset(types.get(), type->name_off) : nullptr;
    if (name && places[i] != 0) functions.emplace_back(name, Function{.address = places[i], .size = sizes[i]});
  }
  return functions;
}

}  // namespace

std::vector<brink_walk_text> WalkTexts(const bpf_program* program) {
  std::vector<brink_walk_text> texts;
  const auto functions = FunctionsOf(bpf_program__fd(program));
  for (const auto& hot : kHot) {
    auto it = std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.first == hot.name; });
    if (it == functions.end()) continue;
    const uint32_t size = std::min(it->second.size, hot.most);
    for (uint32_t at = 0; at < size && texts.size() < BRINK_WALK_TEXTS; at += BRINK_WALK_TEXT_BYTES) {
      texts.push_back({.address = it->second.address + at, .size = std::min<uint32_t>(size - at, BRINK_WALK_TEXT_BYTES), .reserved = 0});
    }
  }
  return texts;
}

}  // namespace brink
