#include "container/cgroup_path.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"

namespace brink {
namespace {

constexpr size_t kMaxPath = 4096;
constexpr size_t kIdDigits = 64;

bool IsHex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsContainerId(std::string_view text) { return text.size() == kIdDigits && IsHex(text); }

// 8-4-4-4-12 with '-' or (systemd driver) '_', or the 32 digits of a static pod's hash.
std::optional<std::string> PodUid(std::string_view text) {
  if (text.size() == 32 && IsHex(text)) return std::string(text);
  if (text.size() != 36) return std::nullopt;
  std::string uid(text);
  for (size_t i = 0; i < uid.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash && uid[i] == '_') uid[i] = '-';
    if (dash ? uid[i] != '-' : !IsHex(std::string_view(&uid[i], 1))) return std::nullopt;
  }
  return uid;
}

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool TakeSuffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

struct ScopePrefix {
  std::string_view text;
  Runtime runtime;
  bool infra;
};

// "PREFIX-ID.scope", the systemd form of each runtime.
constexpr std::array<ScopePrefix, 8> kScopes = {{{"docker-", Runtime::kDocker, false},
                                                 {"cri-containerd-", Runtime::kContainerd, false},
                                                 {"nerdctl-", Runtime::kContainerd, false},
                                                 {"crio-conmon-", Runtime::kCrio, true},
                                                 {"crio-", Runtime::kCrio, false},
                                                 {"libpod-conmon-", Runtime::kPodman, true},
                                                 {"libpod-payload-", Runtime::kPodman, false},
                                                 {"libpod-", Runtime::kPodman, false}}};

// One component of the path, given the one before it; true when it names a container.
class Walker {
 public:
  CgroupIdentity Take(std::string_view path) {
    for (std::string_view part : Split(path.substr(0, kMaxPath), '/')) {
      if (part.empty()) continue;
      Component(part);
      previous_ = part;
    }
    if (identity_.runtime == Runtime::kNone && !identity_.unit.empty()) identity_.runtime = Runtime::kSystemd;
    return identity_;
  }

 private:
  void Component(std::string_view part) {
    if (Pod(part)) return;
    if (Scope(part) || BareId(part) || Lxc(part) || Machine(part)) return;
    if (part.ends_with(".service") || part.ends_with(".scope") || part.ends_with(".slice")) identity_.unit = UnescapeUnit(part);
  }

  void Container(Runtime runtime, std::string_view id, bool infra = false) {
    identity_.runtime = runtime;
    identity_.container_id = std::string(id);
    identity_.infra = infra;
    identity_.unit.clear();
    ++identity_.depth;
    // A container in a container is no longer the outer one's pod member until a pod of its own is named.
    if (identity_.depth > 1 && !pod_is_fresh_) {
      identity_.pod_uid.clear();
      identity_.qos.clear();
    }
    pod_is_fresh_ = false;
  }

  bool Pod(std::string_view part) {
    std::string_view rest = part;
    bool slice = TakeSuffix(&rest, ".slice");
    if (slice && rest.find("kubepods") != std::string_view::npos) {
      size_t pod = rest.rfind("-pod");
      identity_.qos = rest.find("besteffort") != std::string_view::npos ? "besteffort"
                      : rest.find("burstable") != std::string_view::npos ? "burstable" : "guaranteed";
      if (pod != std::string_view::npos) SetPod(rest.substr(pod + 4));
      return true;
    }
    if (part == "kubepods") {
      identity_.qos = "guaranteed";
      return true;
    }
    if ((part == "burstable" || part == "besteffort") && previous_ == "kubepods") {
      identity_.qos = std::string(part);
      return true;
    }
    if (TakePrefix(&rest, "pod") && !slice) return SetPod(rest);
    return false;
  }

  bool SetPod(std::string_view text) {
    auto uid = PodUid(text);
    if (!uid) return false;
    identity_.pod_uid = *uid;
    pod_is_fresh_ = true;
    return true;
  }

  bool Scope(std::string_view part) {
    std::string_view rest = part;
    bool scope = TakeSuffix(&rest, ".scope");
    for (const ScopePrefix& prefix : kScopes) {
      std::string_view id = rest;
      if (TakePrefix(&id, prefix.text) && IsContainerId(id) && (scope || prefix.infra || prefix.runtime != Runtime::kDocker)) {
        Container(prefix.runtime, id, prefix.infra);
        return true;
      }
    }
    // containerd given the kubelet's "slice:prefix:name" by cgroupfs: "...slice:cri-containerd:ID".
    size_t colon = part.rfind(':');
    if (colon != std::string_view::npos && IsContainerId(part.substr(colon + 1))) {
      std::string_view head = part.substr(0, colon);
      if (size_t pod = head.find("-pod"); pod != std::string_view::npos) {
        std::string_view uid = head.substr(pod + 4);
        SetPod(uid.substr(0, uid.find(".slice")));
      }
      bool crio = head.ends_with(":crio"), docker = head.ends_with(":docker");
      Container(crio ? Runtime::kCrio : docker ? Runtime::kDocker : Runtime::kContainerd, part.substr(colon + 1));
      return true;
    }
    return false;
  }

  bool BareId(std::string_view part) {
    if (!IsContainerId(part)) return false;
    Runtime runtime = previous_ == "docker" || previous_ == "docker.slice" ? Runtime::kDocker
                      : previous_ == "libpod_parent" || previous_.starts_with("libpod") ? Runtime::kPodman
                      : previous_ == "buildkit" ? Runtime::kBuildkit
                      : previous_ == "actions_job" ? Runtime::kDocker
                      : previous_ == "default" || previous_ == "k8s.io" || previous_ == "moby" ? Runtime::kContainerd
                      : Runtime::kUnknown;
    Container(runtime, part);
    return true;
  }

  bool Lxc(std::string_view part) {
    std::string_view rest = part;
    if (TakePrefix(&rest, "lxc.payload.") || TakePrefix(&rest, "lxc.monitor.")) {
      if (rest.empty()) return false;
      Container(Runtime::kLxc, rest, part.starts_with("lxc.monitor."));
      return true;
    }
    if (previous_ == "lxc" || previous_ == "lxc.payload") {
      Container(Runtime::kLxc, part);
      return true;
    }
    return false;
  }

  bool Machine(std::string_view part) {
    std::string_view rest = part;
    if (previous_ != "machine.slice") return false;
    if (TakePrefix(&rest, "machine-") && TakeSuffix(&rest, ".scope") && !rest.empty()) {
      Container(Runtime::kNspawn, UnescapeUnit(rest));
      return true;
    }
    if (TakePrefix(&rest, "systemd-nspawn@") && TakeSuffix(&rest, ".service") && !rest.empty()) {
      Container(Runtime::kNspawn, UnescapeUnit(rest));
      return true;
    }
    return false;
  }

  CgroupIdentity identity_;
  std::string_view previous_;
  bool pod_is_fresh_ = false;
};

}  // namespace

std::string_view RuntimeName(Runtime runtime) {
  constexpr std::array<std::string_view, 10> kNames = {"", "docker", "containerd", "cri-o", "podman", "buildkit", "lxc", "nspawn", "systemd", "unknown"};
  return kNames[static_cast<size_t>(runtime)];
}

CgroupIdentity IdentifyCgroup(std::string_view path) { return Walker().Take(path); }

std::string UnescapeUnit(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' && IsHex(text.substr(i + 2, 2))) {
      auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
      out += static_cast<char>(digit(text[i + 2]) << 4 | digit(text[i + 3]));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace brink
