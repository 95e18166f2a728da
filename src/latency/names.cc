#include "latency/names.h"

#include <absl/container/flat_hash_map.h>

#include "container/resolver.h"
#include "kernel/proc_maps.h"
#include "snapshot/kernel_code.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::latency {

struct NameFinder::Impl {
  std::optional<KernelCode> kernel;
  symbol::ObjectTable objects;
  symbol::AddressSpaces spaces{&objects};
  symbol::Symbolizer symbolizer{&objects, {.lines = false}};
  absl::flat_hash_map<uint32_t, uint64_t> known;  // tgid -> how many mappings were read
  ContainerResolver containers{{.runtime_root = "", .hierarchy = ChooseHierarchy()}};

  std::string Kernel(uint64_t address) const {
    if (!kernel || !address) return "";
    auto range = kernel->Find(address);
    return range ? range->name : "";
  }

  std::string User(uint32_t tgid, uint64_t address) {
    auto pid = static_cast<int32_t>(tgid);
    if (!spaces.Find(pid, address)) Learn(pid);
    symbol::Location location = spaces.Normalise(pid, address);
    if (location.object == symbol::kNoObject) return "";
    const symbol::Function& function = symbolizer[symbolizer.FunctionAt(location)];
    return function.name;
  }

  void Learn(int32_t pid) {
    auto maps = ReadMaps(pid);
    if (!maps.ok() || known[static_cast<uint32_t>(pid)] == maps->size()) return;
    known[static_cast<uint32_t>(pid)] = maps->size();
    for (const Mapping& map : *maps) {
      if (!map.executable) continue;
      spaces.Mmap({.pid = pid, .start = map.start, .length = map.end - map.start, .page_offset = map.offset, .path = map.path.empty() ? "//anon" : std::string_view(map.path)});
    }
  }
};

NameFinder::NameFinder() : impl_(std::make_unique<Impl>()) {
  auto kernel = KernelCode::Read();
  if (kernel.ok()) impl_->kernel = std::move(*kernel);
  else kernel_error_ = Message(kernel.status());
}

NameFinder::~NameFinder() = default;

Names NameFinder::names() {
  Impl* impl = impl_.get();
  return {[impl](uint64_t address) { return impl->Kernel(address); }, [impl](uint32_t tgid, uint64_t address) { return impl->User(tgid, address); },
          [impl](uint32_t tgid) { return impl->containers.ByPid(static_cast<pid_t>(tgid)).Label(); }};
}

}  // namespace brink::latency
