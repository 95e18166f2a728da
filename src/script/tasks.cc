#include "script/tasks.h"

#include <optional>

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
    Set(comms_, comm->tid, std::string(comm->comm));
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
    Set(comms_, task.tid, std::move(name));
  } else {
    comms_.erase(task.tid);
  }
  if (!maps_ || task.pid == task.ppid || record.misc & kForkExec) return;
  auto maps = mappings_.find(task.ppid);
  if (maps == mappings_.end()) return;
  auto shared = maps->second;
  Set(mappings_, task.pid, std::move(shared));
}

void Tasks::Map(const perfdata::Record& record, const perfdata::Mmap& mmap) {
  uint16_t mode = record.cpumode();
  if (mode == perfdata::kMiscKernel || mode == perfdata::kMiscHypervisor || mmap.length == 0) return;
  if (mappings_.size() >= kMaxLive && !mappings_.contains(mmap.pid)) return;
  std::shared_ptr<Mappings>& maps = mappings_[mmap.pid];
  if (!maps) {
    maps = std::make_shared<Mappings>();
  } else if (maps.use_count() > 1) {
    maps = std::make_shared<Mappings>(*maps);
  }
  const uint64_t start = mmap.start, end = mmap.start + mmap.length < mmap.start ? UINT64_MAX : mmap.start + mmap.length;
  auto first = maps->upper_bound(start);
  if (first != maps->begin() && std::prev(first)->second.end > start) --first;
  auto last = first;
  std::optional<std::pair<uint64_t, Mapping>> head, tail;  // what stays of overlapped ones
  for (; last != maps->end() && last->first < end; ++last) {
    if (last->first < start) {
      head = *last;
      head->second.end = start;
    }
    if (last->second.end > end) tail.emplace(end, last->second);
  }
  maps->erase(first, last);
  if (head) maps->insert(*head);
  if (tail) maps->insert(*tail);
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
