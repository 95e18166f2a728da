#include "script/tasks.h"

namespace brink::script {
namespace {

constexpr uint16_t kForkExec = 1 << 13;  // a synthesised fork that brings no mappings
constexpr uint32_t kMapHugetlb = 0x40000;

bool IsAnonymous(const perfdata::Mmap& mmap) {
  std::string_view name = mmap.filename;
  return (mmap.flags & kMapHugetlb) || name == "//anon" || name.starts_with("/dev/zero") || name.starts_with("/anon_hugepage") ||
         name.starts_with("[stack") || name.starts_with("/SYSV") || name.starts_with("[heap]");
}

}  // namespace

Tasks::Tasks(bool maps) : maps_(maps) { comms_[0] = "swapper"; }

void Tasks::Observe(const perfdata::Record& record) {
  if (const auto* comm = std::get_if<perfdata::Comm>(&record.body)) {
    comms_[comm->tid] = comm->comm;
  } else if (const auto* task = std::get_if<perfdata::Task>(&record.body)) {
    if (!task->exit) Fork(record, *task);
  } else if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) {
    if (maps_) Map(record, *mmap);
  }
}

void Tasks::Fork(const perfdata::Record& record, const perfdata::Task& task) {
  auto parent = comms_.find(task.ptid);
  if (parent != comms_.end()) {
    std::string name = parent->second;
    comms_[task.tid] = std::move(name);
  } else {
    comms_.erase(task.tid);
  }
  if (!maps_ || task.pid == task.ppid || record.misc & kForkExec) return;
  auto maps = mappings_.find(task.ppid);
  if (maps == mappings_.end()) return;
  auto shared = maps->second;
  mappings_[task.pid] = std::move(shared);
}

void Tasks::Map(const perfdata::Record& record, const perfdata::Mmap& mmap) {
  uint16_t mode = record.cpumode();
  if (mode == perfdata::kMiscKernel || mode == perfdata::kMiscHypervisor || mmap.length == 0) return;
  std::shared_ptr<Mappings>& maps = mappings_[mmap.pid];
  if (!maps) {
    maps = std::make_shared<Mappings>();
  } else if (maps.use_count() > 1) {
    maps = std::make_shared<Mappings>(*maps);
  }
  const uint64_t start = mmap.start, end = mmap.start + mmap.length < mmap.start ? UINT64_MAX : mmap.start + mmap.length;
  auto it = maps->upper_bound(start);
  if (it != maps->begin() && std::prev(it)->second.end > start) --it;
  while (it != maps->end() && it->first < end) {
    Mapping old = it->second;
    uint64_t old_start = it->first;
    it = maps->erase(it);
    if (old_start < start) {
      Mapping head = old;
      head.end = start;
      maps->emplace(old_start, head);
    }
    if (old.end > end) it = std::next(maps->emplace(end, old).first);
  }
  maps->insert_or_assign(start, Mapping{end, start, mmap.pgoff, IsAnonymous(mmap)});
}

std::string_view Tasks::Comm(uint32_t tid) {
  auto found = comms_.find(tid);
  if (found != comms_.end()) return found->second;
  unknown_ = ":" + std::to_string(static_cast<int32_t>(tid));
  return unknown_;
}

uint64_t Tasks::FileOffset(uint32_t pid, uint64_t address) const {
  auto maps = mappings_.find(pid);
  if (maps == mappings_.end()) return address;
  auto it = maps->second->upper_bound(address);
  if (it == maps->second->begin()) return address;
  const Mapping& mapping = std::prev(it)->second;
  if (address >= mapping.end || mapping.identity) return address;
  return address - mapping.start + mapping.pgoff;
}

}  // namespace brink::script
