#include "monitor/policy.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "monitor/yaml_tree.h"

namespace brink::cfi {
namespace {

// Programs that make code while they run. Each is a name that its owner chose: an attacker inside one of them has a JIT
// at hand anyway.
constexpr std::string_view kBuiltIn = R"(
version: 1
entries:
  - {name: jit runtimes by program, match: {exe: "*/node"}, jit: allow}
  - {name: java, match: {exe: "*/java"}, jit: allow}
  - {name: javac, match: {exe: "*/javac"}, jit: allow}
  - {name: php, match: {exe: "*/php*"}, jit: allow}
  - {name: luajit, match: {exe: "*/luajit*"}, jit: allow}
  - {name: dotnet, match: {exe: "*/dotnet"}, jit: allow}
  - {name: qemu, match: {exe: "*/qemu-*"}, jit: allow}
  - {name: erlang, match: {exe: "*/beam.smp"}, jit: allow}
  - {name: pcre in git, match: {exe: "*/git"}, jit: allow}
  - {name: pcre in grep, match: {exe: "*/grep"}, jit: allow}
  - {name: gjs, match: {exe: "*/gjs*"}, jit: allow}
  - {name: chrome, match: {exe: "*/chrom*"}, jit: allow}
  - {name: firefox, match: {exe: "*/firefox*"}, jit: allow}
  - {name: wine, match: {exe: "*/wine*"}, jit: allow}
  - {name: bpf in perf, match: {exe: "*/bpftrace"}, jit: allow}
)";

bool Fits(const std::string& pattern, const std::string& text) { return pattern.empty() || fnmatch(pattern.c_str(), text.c_str(), 0) == 0; }

bool FitsSubject(const PolicyMatch& match, const PolicySubject& subject) {
  return Fits(match.exe, subject.exe) && Fits(match.comm, subject.comm) && Fits(match.container, subject.container) && Fits(match.pod, subject.pod) &&
         (!match.uid || *match.uid == subject.uid);
}

// Reads the form of one file; every complaint has a line.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Status File(const YamlValue& root, std::vector<PolicyEntry>* entries) {
    RETURN_IF_ERROR(Want(root, YamlValue::Kind::kMap, "a policy file"));
    bool version = false;
    for (const auto& [key, value] : root.keys) {
      if (key == "version") {
        if (value.text != "1") return Wrong(value, "version must be 1");
        version = true;
      } else if (key == "entries") {
        RETURN_IF_ERROR(Want(value, YamlValue::Kind::kList, "entries"));
        for (const YamlValue& item : value.items) {
          PolicyEntry entry;
          RETURN_IF_ERROR(Entry(item, &entry));
          entries->push_back(std::move(entry));
        }
      } else {
        return Unknown(value, key, "version, entries");
      }
    }
    return version ? OkStatus() : Wrong(root, "say version: 1");
  }

 private:
  Status Wrong(const YamlValue& at, const std::string& what) { return InvalidArgument(name_ + ":" + std::to_string(at.line) + ": " + what); }
  Status Unknown(const YamlValue& at, const std::string& key, const char* known) { return Wrong(at, "unknown key '" + EscapeForTerminal(key) + "'; known: " + known); }
  Status Want(const YamlValue& value, YamlValue::Kind kind, const std::string& what) {
    constexpr const char* kKinds[] = {"a word", "a list", "a mapping"};
    return value.kind == kind ? OkStatus() : Wrong(value, what + " must be " + kKinds[static_cast<int>(kind)]);
  }
  Status Text(const YamlValue& value, const std::string& key, std::string* out) {
    RETURN_IF_ERROR(Want(value, YamlValue::Kind::kScalar, key));
    *out = value.text;
    return OkStatus();
  }
  Status Grade(const YamlValue& value, Severity* out) {
    auto severity = ParseSeverity(value.text);
    if (!severity.ok()) return Wrong(value, "a severity is info, low, medium or high, not '" + EscapeForTerminal(value.text) + "'");
    *out = *severity;
    return OkStatus();
  }

  Status Entry(const YamlValue& item, PolicyEntry* entry) {
    RETURN_IF_ERROR(Want(item, YamlValue::Kind::kMap, "an entry"));
    for (const auto& [key, value] : item.keys) {
      if (key == "name") RETURN_IF_ERROR(Text(value, key, &entry->name));
      else if (key == "match") RETURN_IF_ERROR(Match(value, &entry->match));
      else if (key == "rules") RETURN_IF_ERROR(Rules(value, entry));
      else if (key == "suppress") RETURN_IF_ERROR(Suppress(value, entry));
      else if (key == "action_at") RETURN_IF_ERROR(Grade(value, &entry->action_at));
      else if (key == "jit") {
        if (value.text != "allow" && value.text != "deny") return Wrong(value, "jit is allow or deny");
        entry->jit = value.text == "allow";
      } else if (key == "check") {
        auto set = ParseCallSet(value.text);
        if (!set.ok()) return Wrong(value, "check is sensitive, all or none, not '" + EscapeForTerminal(value.text) + "'");
        entry->check = *set;
      } else if (key == "alarms_per_minute") {
        auto number = ParseUint(value.text);
        if (!number.ok()) return Wrong(value, "alarms_per_minute must be a number");
        entry->per_minute = *number;
      } else if (key == "action") {
        std::optional<Action> action;
        for (Action a : {Action::kAlert, Action::kSnapshot, Action::kStop, Action::kKill}) {
          if (value.text == ActionName(a)) action = a;
        }
        if (!action) return Wrong(value, "action is alert, snapshot, stop or kill, not '" + EscapeForTerminal(value.text) + "'");
        entry->action = action;
      } else {
        return Unknown(value, key, "name, match, rules, jit, check, suppress, alarms_per_minute, action, action_at");
      }
    }
    return OkStatus();
  }

  Status Match(const YamlValue& value, PolicyMatch* match) {
    RETURN_IF_ERROR(Want(value, YamlValue::Kind::kMap, "match"));
    for (const auto& [key, item] : value.keys) {
      std::string* text = key == "exe" ? &match->exe : key == "comm" ? &match->comm : key == "container" ? &match->container : key == "pod" ? &match->pod : nullptr;
      if (text) {
        RETURN_IF_ERROR(Text(item, key, text));
      } else if (key == "uid") {
        auto uid = ParseUint(item.text);
        if (!uid.ok()) return Wrong(item, "uid must be a number");
        match->uid = static_cast<int64_t>(*uid);
      } else {
        return Unknown(item, key, "exe, comm, container, pod, uid");
      }
    }
    return OkStatus();
  }

  Status Rules(const YamlValue& value, PolicyEntry* entry) {
    RETURN_IF_ERROR(Want(value, YamlValue::Kind::kMap, "rules"));
    for (const auto& [key, item] : value.keys) {
      size_t policy = 0;
      while (policy < kPolicyCount && PolicyName(static_cast<Policy>(policy)) != key) ++policy;
      if (policy == kPolicyCount) return Wrong(item, "no rule '" + EscapeForTerminal(key) + "'; rules are P1 to P13");
      PolicyRule& rule = entry->rules[policy];
      if (item.text == "off") {
        rule.off = true;
      } else {
        Severity severity;
        RETURN_IF_ERROR(Grade(item, &severity));
        rule.severity = severity;
      }
    }
    return OkStatus();
  }

  Status Suppress(const YamlValue& value, PolicyEntry* entry) {
    RETURN_IF_ERROR(Want(value, YamlValue::Kind::kList, "suppress"));
    for (const YamlValue& item : value.items) {
      RETURN_IF_ERROR(Want(item, YamlValue::Kind::kMap, "a suppression"));
      Suppression suppression;
      for (const auto& [key, field] : item.keys) {
        std::string* text = key == "policy" ? &suppression.policy : key == "from" ? &suppression.from : key == "to" ? &suppression.to : key == "reason" ? &suppression.reason : nullptr;
        if (!text) return Unknown(field, key, "policy, from, to, reason");
        RETURN_IF_ERROR(Text(field, key, text));
      }
      if (suppression.reason.empty()) return Wrong(item, "a suppression must say its reason");
      if (suppression.policy.empty() && suppression.from.empty() && suppression.to.empty()) return Wrong(item, "a suppression of everything: turn rules off instead");
      entry->suppress.push_back(std::move(suppression));
    }
    return OkStatus();
  }

  const std::string& name_;
};

}  // namespace

std::string_view ActionName(Action action) {
  constexpr std::string_view kNames[] = {"alert", "snapshot", "stop", "kill"};
  return kNames[static_cast<size_t>(action)];
}

const PolicyFile& PolicyFile::BuiltIn() {
  static const PolicyFile* const kFile = [] {
    auto* file = new PolicyFile;
    const std::string name = "built-in policy";
    auto root = ParseYaml(kBuiltIn, name);
    if (root.ok()) (void)Reader(name).File(*root, &file->entries_);
    return file;
  }();
  return *kFile;
}

StatusOr<PolicyFile> PolicyFile::Parse(std::string_view text, const std::string& name) {
  PolicyFile file;
  ASSIGN_OR_RETURN(YamlValue root, ParseYaml(text, name));
  RETURN_IF_ERROR(Reader(name).File(root, &file.entries_));
  return file;
}

StatusOr<PolicyFile> PolicyFile::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 20));
  return Parse(text, path);
}

PolicyView PolicyFile::For(const PolicySubject& subject) const {
  PolicyView view;
  for (const PolicyEntry& entry : entries_) {
    if (!FitsSubject(entry.match, subject)) continue;
    view.name = entry.name;
    for (size_t i = 0; i < kPolicyCount; ++i) {
      if (entry.rules[i].off || entry.rules[i].severity) view.rules[i] = entry.rules[i];
    }
    if (entry.jit) view.jit = entry.jit;
    if (entry.check) view.check = entry.check;
    for (const Suppression& s : entry.suppress) view.suppress.push_back(&s);
    if (entry.per_minute) view.per_minute = *entry.per_minute;
    if (entry.action) view.action = *entry.action, view.action_at = entry.action_at;
  }
  return view;
}

bool Suppresses(const Suppression& suppression, Policy policy, const std::string& from, const std::string& to) {
  return (suppression.policy.empty() || suppression.policy == PolicyName(policy)) && Fits(suppression.from, from) && Fits(suppression.to, to);
}

}  // namespace brink::cfi
