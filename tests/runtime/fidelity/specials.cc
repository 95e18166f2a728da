#include "specials.h"

#include <linux/perf_event.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/process.h"

namespace brink::fidelity {

Specials::Specials(const std::string& folder) {
  for (const char* what : {"jit", "selfmodifying", "patched", "wrgsbase", "signals", "clocks", "mappings"}) {
    programs_.push_back({what, {BRINK_SPECIAL, what}, true, ""});
  }
  programs_.push_back({"objects", {BRINK_OBJECTS}, true, ""});
  programs_.push_back({"threads", {BRINK_SPECIAL, "threads"}, false, ""});
  AddProbed(folder);
  AddFileSystems(folder);
}

Specials::~Specials() {
  for (const std::string& place : mounted_) ::umount2(place.c_str(), MNT_DETACH);
}

// Of a copy: probes belong to the file. The kernel executes a probed instruction elsewhere, so walks end there, and
// stepping over it is no straight line.
void Specials::AddProbed(const std::string& folder) {
  std::ifstream type_file("/sys/bus/event_source/devices/uprobe/type");
  uint32_t type = 0;
  if (!(type_file >> type)) {
    missing_.push_back("probed: no uprobes here");
    return;
  }
  std::string path = folder + "/probed";
  std::filesystem::copy_file(BRINK_SPECIAL, path, std::filesystem::copy_options::overwrite_existing);
  std::istringstream places(testing_support::Run({path, "where"}).out);
  for (uint64_t at; places >> at;) {
    perf_event_attr attr{};
    attr.type = type;
    attr.size = sizeof attr;
    attr.config1 = reinterpret_cast<uint64_t>(path.c_str());
    attr.config2 = at;
    probes_.emplace_back(static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!probes_.back().valid()) {
      missing_.push_back(std::string("probed: ") + std::strerror(errno));
      return;
    }
  }
  if (probes_.size() == 2) programs_.push_back({"probed", {path, "probed"}, true, ""});
  else missing_.push_back("probed: places not found");
}

void Specials::AddFileSystems(const std::string& folder) {
  for (const char* name : {"memory", "lower", "over"}) std::filesystem::create_directory(folder + "/" + name);
  if (::mount("none", (folder + "/memory").c_str(), "tmpfs", 0, nullptr) != 0) {
    missing_.push_back(std::string("tmpfs, overlay: ") + std::strerror(errno));
    return;
  }
  mounted_.push_back(folder + "/memory");
  for (const char* name : {"upper", "work"}) std::filesystem::create_directory(folder + "/memory/" + name);
  for (const char* name : {"memory", "lower"}) std::filesystem::copy_file(BRINK_SPECIAL, folder + "/" + name + "/special");
  programs_.push_back({"tmpfs", {folder + "/memory/special", "signals"}, true, ""});
  std::string options = "lowerdir=" + folder + "/lower,upperdir=" + folder + "/memory/upper,workdir=" + folder + "/memory/work";
  if (::mount("overlay", (folder + "/over").c_str(), "overlay", 0, options.c_str()) != 0) {
    missing_.push_back(std::string("overlay: ") + std::strerror(errno));
    return;
  }
  mounted_.insert(mounted_.begin(), folder + "/over");
  programs_.push_back({"overlay", {folder + "/over/special", "signals"}, true, ""});
}

}  // namespace brink::fidelity
