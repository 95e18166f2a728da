#include "symbol/locate.h"

#include <cstdlib>
#include <sys/auxv.h>
#include <unistd.h>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::symbol {
namespace {

std::string BuildIdPath(const std::string& hex) { return hex.substr(0, 2) + "/" + hex.substr(2); }

std::string DefaultCache() {
  const char* home = std::getenv("HOME");
  return home ? std::string(home) + "/.debug" : "";
}

std::string RecordedPath(const Object& object) {
  std::string path = object.path;
  if (path.ends_with(" (deleted)")) path.resize(path.size() - 10);
  return path;
}

// Places where the file may be, best first.
std::vector<std::string> Candidates(const Object& object, const LocateOptions& options) {
  std::vector<std::string> places;
  std::string path = RecordedPath(object);
  if (!options.symfs.empty()) return {options.symfs + path, options.symfs + path.substr(path.rfind('/'))};
  if (!options.proc.empty() && object.pid > 0) {
    std::string process = options.proc + "/" + std::to_string(object.pid);
    // Still mapped: the very file, though it may be deleted or in a container.
    places.push_back(absl::StrFormat("%s/map_files/%x-%x", process, object.start, object.start + object.length));
    places.push_back(process + "/root" + path);
  }
  places.push_back(path);
  std::string cache = options.buildid_cache.empty() ? DefaultCache() : options.buildid_cache;
  if (!object.build_id.empty()) {
    std::string hex = HexEncode(object.build_id);
    if (hex.size() > 2 && !cache.empty()) {
      places.push_back(cache + "/.build-id/" + BuildIdPath(hex) + "/elf");
      places.push_back(cache + "/.build-id/" + BuildIdPath(hex));
    }
    for (const std::string& dir : options.debug_dirs) places.push_back(dir + "/.build-id/" + BuildIdPath(hex));
  }
  return places;
}

// A recording may pad a 16-byte id with zeros to 20.
bool SameBuildId(std::string_view recorded, std::string_view found) {
  if (recorded.size() < found.size()) return false;
  return recorded.substr(0, found.size()) == found && recorded.substr(found.size()).find_first_not_of('\0') == std::string_view::npos;
}

std::shared_ptr<elf::File> OpenDebug(const std::string& path, const elf::File& main, std::optional<uint32_t> crc) {
  auto file = elf::File::Open(path);
  if (!file.ok()) return nullptr;
  auto id = main.BuildId();
  if (id) {
    if (file->BuildId() != id) return nullptr;
  } else if (crc) {
    auto actual = elf::FileCrc(path);
    if (!actual.ok() || *actual != *crc) return nullptr;
  }
  return std::make_shared<elf::File>(*std::move(file));
}

void FindDebug(LocatedFile& located, const LocateOptions& options) {
  const elf::File& file = *located.file;
  if (file.FindSection(".symtab") && file.FindSection(".debug_info")) return;
  auto try_path = [&](const std::string& path, std::optional<uint32_t> crc) {
    if (located.debug || path == located.path) return;
    located.debug = OpenDebug(path, file, crc);
    if (located.debug) located.debug_path = path;
  };
  if (auto id = file.BuildId(); id && id->size() > 1) {
    std::string hex = HexEncode(*id);
    for (const std::string& dir : options.debug_dirs) try_path(options.symfs + dir + "/.build-id/" + BuildIdPath(hex) + ".debug", std::nullopt);
    std::string cache = options.buildid_cache.empty() ? DefaultCache() : options.buildid_cache;
    if (!cache.empty()) try_path(cache + "/.build-id/" + BuildIdPath(hex) + "/debug", std::nullopt);
  }
  auto link = file.debug_link();
  if (!link) return;
  std::string folder = located.path.substr(0, located.path.rfind('/'));
  try_path(folder + "/" + link->name, link->crc);
  try_path(folder + "/.debug/" + link->name, link->crc);
  for (const std::string& dir : options.debug_dirs) try_path(dir + folder + "/" + link->name, link->crc);
}

// The vdso of this process stands for that of the recording if it is the same one.
LocatedFile LocateVdso(const Object& object, bool other_host) {
  LocatedFile located;
  const char* image = reinterpret_cast<const char*>(getauxval(AT_SYSINFO_EHDR));
  size_t size = 0;
  if (image) {
    // The image tells its own size by its section headers, which stand at its end.
    uint64_t offset;
    uint16_t entry, count;
    __builtin_memcpy(&offset, image + 40, 8);
    __builtin_memcpy(&entry, image + 58, 2);
    __builtin_memcpy(&count, image + 60, 2);
    size = offset + size_t{entry} * count;
  }
  auto file = elf::File::FromBytes(image ? std::string(image, size) : "", "[vdso]");
  located.path = "[vdso]";
  if (object.build_id.empty() && other_host) {
    located.reason = Unresolved::kOtherHost;
    return located;
  }
  if (!file.ok()) {
    located.reason = Unresolved::kNoFile;
    return located;
  }
  auto id = file->BuildId();
  if (!object.build_id.empty() && id && !SameBuildId(object.build_id, *id)) {
    located.reason = Unresolved::kBuildIdMismatch;
    located.detail = "[vdso] is that of another kernel";
    return located;
  }
  located.verified = !object.build_id.empty() && id;
  located.file = std::make_shared<elf::File>(*std::move(file));
  return located;
}

}  // namespace

LocatedFile Locate(const Object& object, const LocateOptions& options) {
  if (object.kind == ObjectKind::kVdso) return LocateVdso(object, options.other_host);
  LocatedFile located;
  std::string path = RecordedPath(object);
  if (path.empty() || path[0] != '/') {
    located.reason = Unresolved::kNoFile;
    return located;
  }
  located.reason = Unresolved::kNoFile;
  located.detail = EscapeForTerminal(path) + ": not found";
  if (options.other_host && object.build_id.empty() && options.symfs.empty()) {
    located.reason = Unresolved::kOtherHost;
    located.detail = EscapeForTerminal(path) + ": recorded on another host without a build id; give its files with --symfs";
    return located;
  }
  for (const std::string& place : Candidates(object, options)) {
    auto file = elf::File::Open(place);
    if (!file.ok()) {
      if (file.status().code() != absl::StatusCode::kNotFound && located.reason == Unresolved::kNoFile && place == path) {
        located.reason = Unresolved::kUnreadable;
        located.detail = Message(file.status());
      }
      continue;
    }
    auto id = file->BuildId();
    if (!object.build_id.empty() && (!id || !SameBuildId(object.build_id, *id))) {
      located.reason = Unresolved::kBuildIdMismatch;
      located.detail = EscapeForTerminal(place) + ": build id " + (id ? HexEncode(*id) : "absent") + ", recorded " + HexEncode(object.build_id);
      continue;
    }
    located.file = std::make_shared<elf::File>(*std::move(file));
    located.path = place;
    located.verified = !object.build_id.empty();
    located.reason = Unresolved::kNot;
    located.detail.clear();
    FindDebug(located, options);
    return located;
  }
  return located;
}

}  // namespace brink::symbol
