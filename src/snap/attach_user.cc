// User functions and places: uprobe_multi where the kernel has it, single uprobes elsewhere.
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptor_limit.h"
#include "snap/trigger_object.h"

namespace brink::snap {
namespace {

constexpr uint32_t kUprobeMultiReturn = 1;
// The kernel's ENOTSUPP, which no header of user space has.
constexpr int kErrorNotSupported = 524;

}  // namespace

// One place that cannot be probed fails a whole link: then the halves are tried, down to the place itself, which goes into
// `refused`.
Status TriggerObject::LinkPlaces(bpf_program* program, bool at_return, std::span<const Place> places, pid_t pid, std::vector<UniqueFd>* links, std::vector<uint64_t>* refused) {
  std::vector<uint64_t> offsets, counters;
  bool any_counter = false;
  for (const Place& place : places) {
    offsets.push_back(place.offset);
    counters.push_back(place.ref_ctr);
    any_counter = any_counter || place.ref_ctr;
  }
  LinkCreateUprobeMulti create = {};
  create.prog_fd = static_cast<uint32_t>(bpf_program__fd(program));
  create.attach_type = kTraceUprobeMulti;
  const std::string path = "/proc/self/fd/" + std::to_string(program_.get());
  create.path = reinterpret_cast<uint64_t>(path.c_str());
  create.offsets = reinterpret_cast<uint64_t>(offsets.data());
  if (any_counter) create.ref_ctr_offsets = reinterpret_cast<uint64_t>(counters.data());
  create.cnt = static_cast<uint32_t>(offsets.size());
  create.multi_flags = at_return ? kUprobeMultiReturn : 0;
  if (pid > 0) create.pid = static_cast<uint32_t>(pid);
  const long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &create, sizeof(create));
  if (fd >= 0) {
    links->emplace_back(static_cast<int>(fd));
    return OkStatus();
  }
  const int error = errno;
  if (error != kErrorNotSupported) return ErrnoError(error, "uprobe_multi at " + plan_.shown_program);
  if (places.size() == 1) {
    refused->push_back(places[0].offset);
    return OkStatus();
  }
  const size_t half = places.size() / 2;
  RETURN_IF_ERROR(LinkPlaces(program, at_return, places.first(half), pid, links, refused));
  return LinkPlaces(program, at_return, places.subspan(half), pid, links, refused);
}

Status TriggerObject::AttachUserMulti(bpf_program* program, bool at_return, pid_t pid, std::vector<UniqueFd>* links) {
  std::vector<uint64_t> refused;
  RETURN_IF_ERROR(LinkPlaces(program, at_return, plan_.places, pid, links, &refused));
  if (refused.empty()) return OkStatus();
  if (refused.size() == plan_.places.size()) {
    return Unimplemented("the kernel can probe none of these places of " + plan_.shown_program + ": it does not know how to step over the instruction there; probe another place of the function (FUNC+OFF, FILE:LINE)");
  }
  // From now on one link does.
  std::erase_if(plan_.places, [&](const Place& place) { return std::find(refused.begin(), refused.end(), place.offset) != refused.end(); });
  refused_ += refused.size();
  return OkStatus();
}

Status TriggerObject::AttachProcess(pid_t pid, std::vector<UniqueFd>* links) {
  if (entry_) RETURN_IF_ERROR(AttachUserMulti(entry_, false, pid, links));
  return AttachUserMulti(main_, plan_.trigger.kind == TriggerKind::kUretprobe, pid, links);
}

Status TriggerObject::SetMembers(std::span<const Member> members) {
  if (!by_member()) return OkStatus();
  if (members.size() > kMostMembers) return AttachEverybody();
  RaiseDescriptorLimit();
  return member_links_.Set(members);
}

Status TriggerObject::AddMember(const Member& member, bool anew) {
  if (!by_member()) return OkStatus();
  const auto full = [&] { return !member_links_.Has(member) && member_links_.size() >= kMostMembers; };
  if (full()) member_links_.DropEnded();
  if (full()) return AttachEverybody();
  return member_links_.Add(member, anew);
}

// Many processes of one file are most of those who run it, as a rule. First the new probe, then the old ones away: nothing is missed, a hit
// in between is met twice.
Status TriggerObject::AttachEverybody() {
  std::vector<UniqueFd> all;
  RETURN_IF_ERROR(AttachProcess(plan_.pid, &all));
  for (UniqueFd& link : all) fds_.push_back(std::move(link));
  plan_.by_member = false;
  too_many_ = true;
  member_links_.Clear();
  return OkStatus();
}

std::string TriggerObject::how() const {
  std::string whom;
  if (too_many_) whom = "more than " + std::to_string(kMostMembers) + " processes in the groups: whoever runs " + plan_.shown_program + " meets the probe, those of other groups are dropped";
  else if (by_member()) whom = "set in each process of the groups: nobody else meets the probe. The first moment of a new process may come before it (--probe-all meets that too)";
  return how_.empty() || whom.empty() ? how_ + whom : how_ + "; " + whom;
}

// The processes come later (SetMembers). What the kernel refuses to probe it tells where a process has the code mapped: this one has it for
// the moment.
Status TriggerObject::TryPlaces() {
  struct stat info = {};
  if (fstat(program_.get(), &info) != 0) return ErrnoError(errno, plan_.shown_program);
  if (info.st_size <= 0) return InvalidArgument(plan_.shown_program + " is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* code = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, program_.get(), 0);
  if (code == MAP_FAILED) return ErrnoError(errno, "map " + plan_.shown_program);
  std::vector<UniqueFd> trial;
  Status tried = AttachProcess(getpid(), &trial);
  trial.clear();
  munmap(code, size);
  return tried;
}

Status TriggerObject::AttachUser() {
  const bool at_return = plan_.trigger.kind == TriggerKind::kUretprobe;
  how_.clear();
  if (multi_) {
    RETURN_IF_ERROR(by_member() ? TryPlaces() : AttachProcess(plan_.pid, &fds_));
    if (plan_.places.size() + refused_ > 1) how_ = "uprobe_multi at " + std::to_string(plan_.places.size()) + " places";
    if (plan_.left_out) how_ += "; " + std::to_string(plan_.left_out) + " more are left out: they begin with a vector instruction that the kernel's uprobes take for another";
    if (refused_) how_ += "; " + std::to_string(refused_) + " more cannot be probed (the kernel does not know how to step over the instruction there)";
    return OkStatus();
  }
  if (plan_.places.size() > kMostSingleProbes) {
    return ResourceExhausted(std::to_string(plan_.places.size()) + " places match, and this kernel has no uprobe_multi (6.6): at most " + std::to_string(kMostSingleProbes) +
                             " single uprobes are set, because each takes 0.1 s to go; narrow the glob");
  }
  if (plan_.places.size() > 1) {
    how_ = std::to_string(plan_.places.size()) + " single uprobes (no uprobe_multi here): expect up to " + std::to_string(plan_.places.size() / 10 + 1) + " s to detach";
  }
  for (const Place& place : plan_.places) {
    for (bpf_program* program : {entry_, main_}) {
      if (!program) continue;
      LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = place.ref_ctr, .retprobe = at_return && program == main_);
      RETURN_IF_ERROR(Keep(bpf_program__attach_uprobe_opts(program, plan_.pid, plan_.program.c_str(), place.offset, &options),
                           "uprobe at " + place.name + " of " + plan_.shown_program));
    }
  }
  return OkStatus();
}

}  // namespace brink::snap
