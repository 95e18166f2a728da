#include "container/resolver.h"

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

constexpr size_t kShortId = 12, kFullId = 64, kLeastPrefix = 4;

bool IsHex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// Ids of the containers that a path passes through before its innermost one.
std::vector<std::string> OuterContainers(std::string_view path, const CgroupIdentity& innermost) {
  std::vector<std::string> ids;
  if (innermost.depth < 2) return ids;
  int depth = 0;
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
    CgroupIdentity identity = IdentifyCgroup(path.substr(0, slash));
    if (identity.depth > depth && identity.depth < innermost.depth) {
      depth = identity.depth;
      ids.push_back(identity.container_id);
    }
  }
  return ids;
}

}  // namespace

std::string ContainerInfo::ShortId() const {
  const std::string& id = identity.container_id;
  return id.size() == kFullId && IsHex(id) ? id.substr(0, kShortId) : id;
}

std::string ContainerInfo::Pod() const {
  if (!store.pod_name.empty()) return store.pod_namespace.empty() ? store.pod_name : store.pod_namespace + "/" + store.pod_name;
  return identity.pod_uid.empty() ? "" : "pod" + identity.pod_uid;
}

std::string ContainerInfo::Label() const {
  if (is_container()) {
    std::string name = store.name.empty() ? ShortId() : store.name;
    std::string pod = store.pod_name.empty() ? "" : Pod();
    return pod.empty() ? name : pod + "/" + name;
  }
  if (!identity.pod_uid.empty()) return Pod();
  return identity.unit;
}

bool ContainerInfo::Answers(std::string_view word) const {
  if (word.empty()) return false;
  const std::string& id = identity.container_id;
  if (word == Label() || (!store.name.empty() && word == store.name) || word == id) return true;
  if (!is_container()) return word == identity.unit;
  return word.size() >= kLeastPrefix && IsHex(word) && id.size() == kFullId && id.starts_with(word);
}

bool ContainerInfo::InPod(std::string_view word) const {
  if (word.empty()) return false;
  return word == Pod() || (!store.pod_name.empty() && word == store.pod_name) || word == identity.pod_uid || (!store.pod_uid.empty() && word == store.pod_uid);
}

ContainerResolver::ContainerResolver(ResolverOptions options) : options_(std::move(options)), store_(options_.runtime_root) {}

const ContainerInfo& ContainerResolver::Keep(std::string path, std::string miss) {
  auto info = std::make_unique<ContainerInfo>();
  info->path = path;
  info->identity = IdentifyCgroup(path);
  info->outer = OuterContainers(path, info->identity);
  info->store = info->is_container() ? store_.Find(info->identity) : store_.FindPod(info->identity.pod_uid);
  info->miss = miss.empty() ? info->store.miss : std::move(miss);
  if (order_.size() >= kMaxCached) {
    by_path_.erase(order_.front());
    order_.pop_front();
    ++evicted_;
  }
  order_.push_back(path);
  return *(by_path_[std::move(path)] = std::move(info));
}

const ContainerInfo& ContainerResolver::ByPath(std::string_view path) {
  auto it = by_path_.find(std::string(path));
  if (it != by_path_.end()) return *it->second;
  return Keep(std::string(path), "");
}

void ContainerResolver::Learn(uint64_t id, std::string_view path) {
  if (!path_of_.contains(id)) id_order_.push_back(id);
  path_of_[id] = std::string(path);
  if (id_order_.size() > kMaxCached) {
    path_of_.erase(id_order_.front());
    id_order_.pop_front();
    ++evicted_;
  }
}

const ContainerInfo& ContainerResolver::ById(uint64_t id) {
  auto it = path_of_.find(id);
  if (it == path_of_.end()) {
    auto path = id ? CgroupPathOf(options_.hierarchy, id) : StatusOr<std::string>(NotFound("the task has no cgroup in " + options_.hierarchy.Name()));
    if (!path.ok()) {
      gone_ = ContainerInfo();
      gone_.miss = id ? "cgroup gone before it was seen" : Message(path.status());
      return gone_;
    }
    Learn(id, *path);
    return ByPath(*path);
  }
  return ByPath(it->second);
}

const ContainerInfo& ContainerResolver::ByPid(pid_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/cgroup");
  std::optional<std::string> path = text.ok() ? PathInHierarchy(*text, options_.hierarchy) : std::nullopt;
  if (path) return ByPath(*path);
  gone_ = ContainerInfo();
  gone_.miss = text.ok() ? "process " + std::to_string(pid) + " has no cgroup in " + options_.hierarchy.Name() : "process " + std::to_string(pid) + " is gone";
  return gone_;
}

StatusOr<std::vector<CgroupFolder>> ContainerResolver::Find(std::string_view word, bool pod) {
  std::vector<CgroupFolder> found;
  std::vector<std::string> labels;
  for (const CgroupFolder& folder : ListCgroups(options_.hierarchy, "/")) {
    const ContainerInfo& info = ByPath(folder.path);
    Learn(folder.id, folder.path);
    if (pod ? info.InPod(word) : info.Answers(word)) found.push_back(folder);
    std::string label = pod ? info.Pod() : info.Label();
    if (!label.empty()) labels.push_back(label);
  }
  if (!found.empty()) return found;
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  std::string near;
  for (const std::string& name : NearestNames(word, labels)) near += (near.empty() ? "; nearest: " : ", ") + EscapeForTerminal(name);
  return NotFound(std::string(pod ? "no pod '" : "no container '") + EscapeForTerminal(word) + "' among " + std::to_string(labels.size()) +
                  (pod ? " pods" : " containers and units") + " of hierarchy " + options_.hierarchy.Name() + near);
}

}  // namespace brink
