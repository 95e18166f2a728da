#include "session/synth.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"
#include "kernel/proc_kernel.h"
#include "kernel/proc_maps.h"
#include "kernel/proc_task.h"
#include "kernel/build_id.h"

namespace brink {
namespace {

constexpr uint32_t kKernelPid = 0xffffffff;

perfdata::EventAttr SideBandAttr() {
  perfdata::EventAttr attr;
  attr.sample_type = kSideBandSampleType;
  attr.flags = perfdata::kAttrSampleIdAll;
  return attr;
}

uint32_t ProtectionOf(const Mapping& map) {
  return (map.readable ? PROT_READ : 0u) | (map.writable ? PROT_WRITE : 0u) | (map.executable ? PROT_EXEC : 0u);
}

// perf's name of anonymous executable memory; the kernel's own records say the same.
std::string NameOf(const Mapping& map) { return map.path.empty() ? "//anon" : map.path; }

// Read through the process's own root, so that containers' files are theirs; the mapping itself where that is allowed
// (it reaches deleted and replaced files too).
std::string BuildIdOf(pid_t pid, const Mapping& map) {
  if (map.path.empty() || map.path[0] != '/' || map.inode == 0) return {};
  std::string proc = "/proc/" + std::to_string(pid);
  char range[64];
  std::snprintf(range, sizeof(range), "/map_files/%lx-%lx", map.start, map.end);
  std::string id = ReadBuildId(proc + range);
  return id.empty() ? ReadBuildId(proc + "/root" + map.path) : id;
}

}  // namespace

Synthesizer::Synthesizer(RecordSink& sink) : sink_(sink), encoder_(SideBandAttr()), scratch_(perfdata::kMaxRecordSize) {}

void Synthesizer::Put(size_t size) {
  if (size == 0) return;  // longer than a record may be: a path no consumer could read anyway
  sink_.PutPerfRecord(std::span(scratch_).first(size));
  ++count_;
}

void Synthesizer::Kernel() {
  // Where the text lies never changes, and finding it means reading 200,000 symbols.
  static const std::optional<KernelText> text = ReadKernelText();
  if (!text) return;
  perfdata::Mmap2Fields map = {.misc = perfdata::kMiscKernel, .pid = kKernelPid, .tid = 0, .start = text->start,
                               .length = text->end - text->start, .pgoff = text->start, .prot = PROT_READ | PROT_EXEC};
  std::string id = KernelBuildId(), name = "[kernel.kallsyms]" + text->symbol;
  map.build_id = id;
  map.filename = name;
  Put(encoder_.Mmap2(scratch_, map, {}));
  for (const KernelModule& module : ReadModules()) {
    id = ModuleBuildId(module.name);
    name = "[" + module.name + "]";
    map.start = module.start;
    map.length = module.size;
    map.pgoff = 0;
    map.build_id = id;
    map.filename = name;
    Put(encoder_.Mmap2(scratch_, map, {}));
  }
}

void Synthesizer::BpfPrograms() {
  uint32_t id = 0;
  while (bpf_prog_get_next_id(id, &id) == 0) {
    UniqueFd fd(bpf_prog_get_fd_by_id(id));
    if (!fd.valid()) continue;
    bpf_prog_info info = {};
    uint32_t length = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd.get(), &info, &length) != 0) continue;
    constexpr uint32_t kMostFunctions = 256;
    uint32_t functions = std::min(info.nr_jited_ksyms, kMostFunctions);
    std::vector<uint64_t> symbols(functions);
    std::vector<uint32_t> lengths(functions);
    std::string tag = HexEncode({reinterpret_cast<const char*>(info.tag), sizeof(info.tag)});
    std::string name = "bpf_prog_" + tag + (info.name[0] ? "_" + std::string(info.name, strnlen(info.name, sizeof(info.name))) : "");
    info = {};
    info.nr_jited_ksyms = info.nr_jited_func_lens = functions;
    info.jited_ksyms = reinterpret_cast<uint64_t>(symbols.data());
    info.jited_func_lens = reinterpret_cast<uint64_t>(lengths.data());
    length = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd.get(), &info, &length) != 0) continue;
    for (uint32_t i = 0; i < std::min(functions, info.nr_jited_ksyms); ++i) {
      if (symbols[i] == 0) continue;  // addresses hidden
      Put(encoder_.Ksymbol(scratch_, symbols[i], lengths[i], PERF_RECORD_KSYMBOL_TYPE_BPF, 0, name, {}));
    }
  }
}

void Synthesizer::Cgroups(const std::string& mount_point) {
  namespace fs = std::filesystem;
  std::error_code error;
  size_t count = 0;
  auto put = [&](const fs::path& folder) {
    struct stat status;
    if (stat(folder.c_str(), &status) != 0) return;
    std::string path = folder.string().substr(mount_point.size());
    Put(encoder_.Cgroup(scratch_, status.st_ino, path.empty() ? "/" : path, {}));
  };
  put(mount_point);
  fs::recursive_directory_iterator at(mount_point, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end && count < kMostCgroups; at.increment(error)) {
    std::error_code gone;
    if (!at->is_directory(gone)) continue;
    put(at->path());
    ++count;
  }
}

void Synthesizer::PutNamespaces(pid_t pid, const perfdata::SampleId& id) {
  // In the order of the kernel's NET_NS_INDEX and so on.
  static constexpr const char* kNames[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};
  std::vector<uint64_t> pairs;
  for (const char* name : kNames) {
    struct stat status = {};
    if (stat(("/proc/" + std::to_string(pid) + "/ns/" + name).c_str(), &status) != 0) return;
    pairs.push_back(status.st_dev);
    pairs.push_back(status.st_ino);
  }
  Put(encoder_.Namespaces(scratch_, static_cast<uint32_t>(pid), static_cast<uint32_t>(pid), pairs, id));
}

void Synthesizer::Process(pid_t pid, uint64_t time_ns) {
  auto stat = ReadTaskStat(pid);
  if (!stat.ok()) return;
  const uint32_t tgid = static_cast<uint32_t>(pid);
  perfdata::SampleId id = {.pid = tgid, .tid = tgid, .time = time_ns};
  const uint32_t parent = static_cast<uint32_t>(stat->parent);
  for (pid_t thread : ListThreads(pid)) {
    auto thread_stat = thread == pid ? stat : ReadThreadStat(pid, thread);
    if (!thread_stat.ok()) continue;
    const uint32_t tid = static_cast<uint32_t>(thread);
    id.tid = tid;
    bool leader = thread == pid;
    Put(encoder_.Fork(scratch_, {.pid = tgid, .ppid = leader ? parent : tgid, .tid = tid, .ptid = leader ? parent : tgid, .time = time_ns}, id));
    Put(encoder_.Comm(scratch_, tgid, tid, thread_stat->comm, false, id));
  }
  if (stat->kernel_thread) return;
  id.tid = tgid;
  PutNamespaces(pid, id);
  auto maps = ReadMaps(pid);
  if (!maps.ok()) return;
  for (const Mapping& map : *maps) {
    if (!map.executable || map.path == "[vsyscall]") continue;
    std::string build_id = BuildIdOf(pid, map), name = NameOf(map);
    Put(encoder_.Mmap2(scratch_,
                       {.misc = perfdata::kMiscUser, .pid = tgid, .tid = tgid, .start = map.start, .length = map.end - map.start,
                        .pgoff = map.offset, .build_id = build_id, .major = map.major, .minor = map.minor, .inode = map.inode,
                        .prot = ProtectionOf(map), .flags = map.shared ? uint32_t{MAP_SHARED} : uint32_t{MAP_PRIVATE}, .filename = name},
                       id));
  }
}

}  // namespace brink
