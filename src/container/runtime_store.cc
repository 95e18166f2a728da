#include "container/runtime_store.h"

#include <dirent.h>
#include <glob.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 4u << 20;
constexpr size_t kMaxText = 512;

// "%" stands for the container's id.
constexpr std::array<const char*, 10> kBundles = {
    "/run/containerd/io.containerd.runtime.v2.task/*/%/config.json",
    "/run/k3s/containerd/io.containerd.runtime.v2.task/*/%/config.json",
    "/run/k0s/containerd/io.containerd.runtime.v2.task/*/%/config.json",
    "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/*/%/config.json",
    "/run/user/*/containerd/io.containerd.runtime.v2.task/*/%/config.json",
    "/run/containers/storage/*-containers/%/userdata/config.json",
    "/var/run/containers/storage/*-containers/%/userdata/config.json",
    "/var/lib/containers/storage/*-containers/%/userdata/config.json",
    "/run/user/*/containers/*-containers/%/userdata/config.json",
    "/home/*/.local/share/containers/storage/*-containers/%/userdata/config.json"};
constexpr std::array<const char*, 2> kDocker = {"/var/lib/docker/containers/%/config.v2.json",
                                                "/home/*/.local/share/docker/containers/%/config.v2.json"};
constexpr std::array<const char*, 3> kStorageIndexes = {"/var/lib/containers/storage/*-containers/containers.json",
                                                        "/home/*/.local/share/containers/storage/*-containers/containers.json",
                                                        "/run/containers/storage/*-containers/containers.json"};

json Parse(const std::string& path) {
  auto text = ReadFile(path, kMaxFile);
  return text.ok() ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
}

// A member that is a string, cut to a sane length; "" for anything else.
std::string Text(const json& object, const char* key) {
  if (!object.is_object()) return "";
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>().substr(0, kMaxText) : "";
}

const json& Member(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

std::string FirstText(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (std::string text = Text(object, key); !text.empty()) return text;
  }
  return "";
}

// containerd: io.kubernetes.cri.*; cri-o: io.kubernetes.*; nerdctl: nerdctl/*.
bool FromAnnotations(const json& annotations, StoreEntry* entry) {
  entry->name = FirstText(annotations, {"io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"});
  entry->image = FirstText(annotations, {"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "nerdctl/image-name"});
  entry->pod_name = FirstText(annotations, {"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"});
  entry->pod_namespace = FirstText(annotations, {"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"});
  entry->pod_uid = FirstText(annotations, {"io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"});
  std::string type = FirstText(annotations, {"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"});
  entry->infra = type == "sandbox";
  if (entry->infra && (entry->name.empty() || entry->name == "POD")) entry->name = "sandbox";
  if (!Text(annotations, "io.kubernetes.cri-o.ContainerType").empty()) entry->runtime = Runtime::kCrio;
  else if (Text(annotations, "io.container.manager") == "libpod") entry->runtime = Runtime::kPodman;
  else if (!type.empty() || !Text(annotations, "nerdctl/name").empty()) entry->runtime = Runtime::kContainerd;
  return !entry->name.empty() || !entry->pod_name.empty();
}

// NAMESPACE_POD_UID, the name of a folder of /var/log/pods. Namespaces and pods hold no underscore.
bool SplitPodFolder(std::string_view folder, StoreEntry* entry) {
  auto parts = Split(folder, '_');
  if (parts.size() != 3 || parts[0].empty() || parts[1].empty()) return false;
  entry->pod_namespace = std::string(parts[0]);
  entry->pod_name = std::string(parts[1]);
  entry->pod_uid = std::string(parts[2]);
  return true;
}

}  // namespace

std::string_view NameSourceName(NameSource source) {
  constexpr std::array<std::string_view, 6> kNames = {"", "oci-bundle", "docker-config", "storage-index", "pod-logs", "path"};
  return kNames[static_cast<size_t>(source)];
}

RuntimeStore::RuntimeStore(std::string root) : root_(std::move(root)) {
  while (root_.ends_with('/')) root_.pop_back();
}

std::vector<std::string> RuntimeStore::Expand(std::string_view pattern) const {
  // The root is the user's own text: it may hold what glob would take for a wildcard.
  std::string whole;
  for (char c : root_) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') whole += '\\';
    whole += c;
  }
  whole += pattern;
  std::vector<std::string> paths;
  glob_t found = {};
  constexpr size_t kMostPaths = 1024;
  if (glob(whole.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && i < kMostPaths; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

std::string WithId(std::string_view pattern, const std::string& id) {
  std::string out(pattern);
  return out.replace(out.find('%'), 1, id);
}

}  // namespace

bool RuntimeStore::FromBundles(const std::string& id, StoreEntry* entry) const {
  for (const char* pattern : kBundles) {
    for (const std::string& path : Expand(WithId(pattern, id))) {
      if (!FromAnnotations(Member(Parse(path), "annotations"), entry)) continue;
      entry->source = NameSource::kOciBundle;
      return true;
    }
  }
  return false;
}

bool RuntimeStore::FromDocker(const std::string& id, StoreEntry* entry) const {
  for (const char* pattern : kDocker) {
    for (const std::string& path : Expand(WithId(pattern, id))) {
      json config = Parse(path);
      std::string name = Text(config, "Name");
      if (name.empty()) continue;
      const json& settings = Member(config, "Config");
      const json& labels = Member(settings, "Labels");
      entry->name = name.substr(name[0] == '/');
      entry->image = Text(settings, "Image");
      // The dockershim's and cri-dockerd's pods.
      if (std::string inner = Text(labels, "io.kubernetes.container.name"); !inner.empty()) {
        entry->name = inner;
        entry->infra = inner == "POD";
      }
      entry->pod_name = Text(labels, "io.kubernetes.pod.name");
      entry->pod_namespace = Text(labels, "io.kubernetes.pod.namespace");
      entry->pod_uid = Text(labels, "io.kubernetes.pod.uid");
      entry->runtime = Runtime::kDocker;
      entry->source = NameSource::kDockerConfig;
      return true;
    }
  }
  return false;
}

// containers.json of containers/storage: an array; `metadata` is JSON in a string.
bool RuntimeStore::FromStorageIndex(const std::string& id, StoreEntry* entry) const {
  for (const char* pattern : kStorageIndexes) {
    for (const std::string& path : Expand(pattern)) {
      json index = Parse(path);
      if (!index.is_array()) continue;
      for (const json& item : index) {
        if (Text(item, "id") != id) continue;
        json metadata = json::parse(Text(item, "metadata"), nullptr, false);
        entry->image = Text(metadata, "image-name");
        entry->name = Text(metadata, "name");
        entry->pod_name = Text(metadata, "pod-name");
        const json& names = Member(item, "names");
        if (entry->name.empty() && names.is_array() && !names.empty() && names[0].is_string()) entry->name = names[0].get<std::string>().substr(0, kMaxText);
        if (entry->name.empty()) continue;
        entry->runtime = entry->pod_name.empty() ? Runtime::kPodman : Runtime::kCrio;
        entry->source = NameSource::kStorageIndex;
        return true;
      }
    }
  }
  return false;
}

// /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
bool RuntimeStore::FromContainerLogs(const std::string& id, StoreEntry* entry) const {
  for (const std::string& path : Expand("/var/log/containers/*-" + id + ".log")) {
    std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    name.remove_suffix(id.size() + 5);
    auto parts = Split(name, '_');
    if (parts.size() != 3) continue;
    entry->pod_name = std::string(parts[0]);
    entry->pod_namespace = std::string(parts[1]);
    entry->name = std::string(parts[2]);
    entry->source = NameSource::kPodLogs;
    return true;
  }
  return false;
}

StoreEntry RuntimeStore::FindPod(std::string_view uid) const {
  StoreEntry entry;
  if (uid.empty()) return entry;
  for (const std::string& path : Expand("/var/log/pods/*_" + std::string(uid))) {
    if (!SplitPodFolder(std::string_view(path).substr(path.rfind('/') + 1), &entry)) continue;
    entry.source = NameSource::kPodLogs;
    break;
  }
  return entry;
}

StoreEntry RuntimeStore::Find(const CgroupIdentity& identity) const {
  StoreEntry entry;
  entry.runtime = identity.runtime;
  const std::string& id = identity.container_id;
  if (id.empty()) return entry;
  if (identity.runtime == Runtime::kLxc || identity.runtime == Runtime::kNspawn) {
    // These have no ids: the path holds the name.
    entry.name = id;
    entry.source = NameSource::kPath;
    entry.infra = identity.infra;
    return entry;
  }
  bool found = FromBundles(id, &entry) || FromDocker(id, &entry) || FromStorageIndex(id, &entry) || FromContainerLogs(id, &entry);
  if (entry.runtime == Runtime::kUnknown || entry.runtime == Runtime::kNone) entry.runtime = identity.runtime;
  if (entry.pod_uid.empty()) entry.pod_uid = identity.pod_uid;
  entry.infra = entry.infra || identity.infra;
  if (!found) {
    StoreEntry pod = FindPod(identity.pod_uid);
    if (pod.source != NameSource::kNone) {
      entry.source = pod.source;
      entry.pod_name = pod.pod_name;
      entry.pod_namespace = pod.pod_namespace;
      entry.miss = "only its pod is known, from /var/log/pods";
    } else {
      entry.miss = "no runtime's files know " + id.substr(0, 12);
    }
  }
  return entry;
}

}  // namespace brink
