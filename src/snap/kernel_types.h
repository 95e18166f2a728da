// The running kernel's own description of itself (BTF of vmlinux and of modules): parameters of functions, fields of
// structures, numbers of controllers. Offsets for conditions come from here; nothing is compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "brink/abi/snap.h"

struct btf;

namespace brink::snap {

struct KernelParam {
  std::string name;
  uint32_t type = 0;
};

struct KernelFunction {
  const btf* types = nullptr;  // where the ids belong
  uint32_t id = 0;             // of the function itself
  std::vector<KernelParam> params;
  uint32_t result = 0;         // 0: void
  std::string module;          // "" vmlinux
};

class KernelTypes {
 public:
  // FAILED_PRECONDITION where the kernel has no BTF.
  static StatusOr<std::unique_ptr<KernelTypes>> Load();
  ~KernelTypes();
  KernelTypes(const KernelTypes&) = delete;
  KernelTypes& operator=(const KernelTypes&) = delete;

  // NOT_FOUND with the nearest names.
  StatusOr<KernelFunction> Function(std::string_view name);
  std::vector<std::string> FunctionNames(std::string_view glob);  // of vmlinux, sorted
  // Arguments of a raw tracepoint; names may be empty. NOT_FOUND with the nearest.
  StatusOr<KernelFunction> RawTracepoint(std::string_view name);
  // Value of an enumerator ("memory_cgrp_id"), of any enum.
  std::optional<uint32_t> Enumerator(std::string_view name);
  // Parameters of a function that ptr-type `type` points to, member by member: continues `load`, whose place holds a
  // value of `type`. Errors name the structure and the nearest members.
  Status Follow(const btf* types, uint32_t type, std::span<const std::string> members, brink_snap_load* load) const;
  // Size, sign and user-pointer of a scalar or pointer type; false for others.
  static bool Describe(const btf* types, uint32_t type, brink_snap_load* load);
  // Whether the type is an integer, as results with an errno are.
  static bool IsInt(const btf* types, uint32_t type);
  // Whether the type is a pointer to characters; `user` tells a user pointer.
  static bool IsString(const btf* types, uint32_t type, bool* user);

 private:
  KernelTypes() = default;
  StatusOr<KernelFunction> Prototype(const btf* types, uint32_t proto, uint32_t id) const;
  void LoadModules();

  btf* vmlinux_ = nullptr;
  std::vector<std::pair<std::string, btf*>> modules_;
  bool modules_loaded_ = false;
};

}  // namespace brink::snap
