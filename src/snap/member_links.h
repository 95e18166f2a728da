// Probes that are set in each process of groups by itself: which process has which links.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "snap/members.h"

namespace brink::snap {

// body(0) to body(count - 1), by threads where there are many: for calls that wait and do not compute.
void InParallel(size_t count, const std::function<void(size_t)>& body);

// Not thread safe. Links go with the object.
class MemberLinks {
 public:
  using Attach = std::function<Status(pid_t pid, std::vector<UniqueFd>* links)>;
  explicit MemberLinks(Attach attach) : attach_(std::move(attach)) {}
  ~MemberLinks() { Clear(); }

  // These processes have links afterwards, and no others. An error is that of a process which has none: the next call tries again.
  Status Set(std::span<const Member> members);
  // This one too; `anew`: in place of those that it has.
  Status Add(const Member& member, bool anew);
  void Drop(pid_t pid);
  // Those of processes that have ended.
  void DropEnded();
  // All of them; they are gone when it returns.
  void Clear();
  bool Has(const Member& member) const;
  size_t size() const { return held_.size(); }

 private:
  struct Held {
    uint64_t start_time;
    std::vector<UniqueFd> links;
  };
  void Close(std::vector<Held> old);
  void WaitForClosed();

  Attach attach_;
  std::map<pid_t, Held> held_;
  std::thread closing_;  // those that came last to Close
};

}  // namespace brink::snap
