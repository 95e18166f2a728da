// Policy files: which rules hold for which programs and containers (docs/cfi.md, "Policy files").
//
// YAML, read with libyaml, checked against the form before anything is taken: an unknown key, a wrong type or a rule that
// does not exist is an error with its line. Immutable once read; a reload makes a new one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cfi/policies.h"
#include "monitor/calls.h"

namespace brink::cfi {

// Of whom an entry speaks; empty parts fit everybody. Shell patterns.
struct PolicyMatch {
  std::string exe, comm, container, pod;
  std::optional<int64_t> uid;
};

struct PolicyRule {
  bool off = false;
  std::optional<Severity> severity;  // instead of the policy's own, where it is violated
};

struct Suppression {
  std::string policy;         // "P3"; "" any
  std::string from, to;       // shell patterns on "file:symbol"; "" any
  std::string reason;         // why; shown in the event
};

enum class Action : uint8_t { kAlert, kSnapshot, kStop, kKill };

struct PolicyEntry {
  std::string name;
  PolicyMatch match;
  std::array<PolicyRule, kPolicyCount> rules;
  std::optional<bool> jit;            // anonymous code is a JIT's
  std::optional<CallSet> check;       // which of its windows are judged
  std::vector<Suppression> suppress;
  std::optional<uint64_t> per_minute; // alarms of a pod or process told; more are counted
  std::optional<Action> action;       // user space's, at `action_at` and above
  Severity action_at = Severity::kHigh;
};

// Who asks.
struct PolicySubject {
  std::string exe, comm, container, pod;
  int64_t uid = -1;
};

// What holds for one process: entries of the file that match, later ones over earlier ones.
struct PolicyView {
  std::string name;  // of the last entry that matched; "" none
  std::array<PolicyRule, kPolicyCount> rules;
  std::optional<bool> jit;
  std::optional<CallSet> check;
  std::vector<const Suppression*> suppress;
  uint64_t per_minute = 60;
  Action action = Action::kAlert;
  Severity action_at = Severity::kHigh;
};

class PolicyFile {
 public:
  // What brink knows by itself: runtimes with JITs.
  static const PolicyFile& BuiltIn();
  // Errors name `name` and the line.
  static StatusOr<PolicyFile> Parse(std::string_view text, const std::string& name);
  // A file alone, to be appended.
  static StatusOr<PolicyFile> Load(const std::string& path);
  // Later files win over earlier ones.
  void Append(const PolicyFile& other) { entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end()); }

  PolicyView For(const PolicySubject& subject) const;
  const std::vector<PolicyEntry>& entries() const { return entries_; }

 private:
  std::vector<PolicyEntry> entries_;
};

std::string_view ActionName(Action action);
// Whether a suppression fits a violation between two sides named "file:symbol".
bool Suppresses(const Suppression& suppression, Policy policy, const std::string& from, const std::string& to);

}  // namespace brink::cfi
