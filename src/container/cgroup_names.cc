#include "container/cgroup_names.h"

namespace brink {

void CgroupNames::Learn(uint64_t id, std::string_view path) {
  if (taught_.size() >= kMaxKept && !taught_.contains(id)) return;
  taught_[id] = std::string(path);
  entries_.erase(id);
}

const CgroupNames::Names& CgroupNames::Of(uint64_t id) {
  auto it = entries_.find(id);
  if (it != entries_.end()) return it->second.names;
  auto taught = taught_.find(id);
  const ContainerInfo* info = nullptr;
  if (id && taught != taught_.end()) info = &resolver_.ByPath(taught->second);
  else if (id && live_) info = &resolver_.ById(id);
  if (!info || info->path.empty()) {
    ++unknown_;
    return none_;
  }
  if (entries_.size() >= kMaxKept) entries_.clear();
  Entry& entry = entries_[id];
  Fill(*info, &entry);
  return entry.names;
}

void CgroupNames::Fill(const ContainerInfo& info, Entry* entry) {
  const bool container = info.is_container(), pod = !info.Pod().empty();
  entry->texts = {info.path};
  auto add = [&](std::string text) {
    if (!text.empty()) entry->texts.push_back(std::move(text));
  };
  if (container) {
    for (std::string text : {info.Label(), info.store.name, info.identity.container_id, info.ShortId()}) add(std::move(text));
  }
  const size_t containers = entry->texts.size();
  if (pod) {
    for (std::string text : {info.Pod(), info.store.pod_name, info.identity.pod_uid, info.store.pod_uid}) add(std::move(text));
  }
  std::vector<std::string_view> all(entry->texts.begin(), entry->texts.end());
  entry->names.path = {all[0]};
  entry->names.container.assign(all.begin() + 1, all.begin() + static_cast<ptrdiff_t>(containers));
  entry->names.pod.assign(all.begin() + static_cast<ptrdiff_t>(containers), all.end());
  if (!container) entry->names.container = {std::string_view()};
  if (!pod) entry->names.pod = {std::string_view()};
}

}  // namespace brink
