#include "snap/member_links.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "base/thread.h"

namespace brink::snap {

void InParallel(size_t count, const std::function<void(size_t)>& body) {
  constexpr size_t kMostThreads = 32;
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(count, kMostThreads); ++i) {
    auto thread = StartThread("a thread that detaches", work);
    if (!thread.ok()) break;
    threads.push_back(*std::move(thread));
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

Status MemberLinks::Set(std::span<const Member> members) {
  std::map<pid_t, Held> before = std::exchange(held_, {});
  Status failed;
  for (const Member& member : members) {
    auto known = before.find(member.pid);
    if (known != before.end() && known->second.start_time == member.start_time) held_.insert(before.extract(known));
    else if (Status added = Add(member, false); !added.ok()) failed = added;
  }
  std::vector<Held> old;
  for (auto& [pid, held] : before) old.push_back(std::move(held));
  Close(std::move(old));
  return failed;
}

bool MemberLinks::Has(const Member& member) const {
  auto known = held_.find(member.pid);
  return known != held_.end() && known->second.start_time == member.start_time;
}

Status MemberLinks::Add(const Member& member, bool anew) {
  if (!anew && Has(member)) return OkStatus();
  Drop(member.pid);
  Held fresh = {.start_time = member.start_time, .links = {}};
  Status linked = attach_(member.pid, &fresh.links);
  if (linked.ok()) held_.emplace(member.pid, std::move(fresh));
  return ErrnoOf(linked) == ESRCH ? OkStatus() : linked;  // it may have ended
}

void MemberLinks::DropEnded() {
  std::vector<Held> old;
  for (auto it = held_.begin(); it != held_.end();) {
    auto now = MemberOf(it->first);
    if (now && now->start_time == it->second.start_time) {
      ++it;
      continue;
    }
    old.push_back(std::move(it->second));
    it = held_.erase(it);
  }
  Close(std::move(old));
}

void MemberLinks::Clear() {
  std::vector<Held> old;
  for (auto& [pid, held] : held_) old.push_back(std::move(held));
  held_.clear();
  Close(std::move(old));
  WaitForClosed();
}

void MemberLinks::Drop(pid_t pid) {
  auto known = held_.extract(pid);
  if (known.empty()) return;
  std::vector<Held> old;
  old.push_back(std::move(known.mapped()));
  Close(std::move(old));
}

// Each waits until no CPU can be in the probe any more; together they wait once. Not in the caller's time: a process may just be coming.
void MemberLinks::Close(std::vector<Held> old) {
  if (old.empty()) return;
  WaitForClosed();
  auto shared = std::make_shared<std::vector<Held>>(std::move(old));
  auto work = [shared] { InParallel(shared->size(), [&](size_t i) { (*shared)[i].links.clear(); }); };
  auto thread = StartThread("a thread that detaches", work);
  if (thread.ok()) closing_ = *std::move(thread);
  else work();
}

void MemberLinks::WaitForClosed() {
  if (closing_.joinable()) closing_.join();
}

}  // namespace brink::snap
