#include <cerrno>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/confine.h"

namespace brink {
namespace {

// Rights and fields younger than Debian 12's header; numbers of the kernel's uapi.
constexpr uint64_t kTruncate = 1ull << 14;   // ABI 3
constexpr uint64_t kIoctlDev = 1ull << 15;   // ABI 5
constexpr uint64_t kNetBindConnect = 3;      // ABI 4: bind and connect of TCP
constexpr uint64_t kScopeAll = 3;            // ABI 6: abstract unix sockets, signals

struct Ruleset {
  __u64 handled_access_fs;
  __u64 handled_access_net;
  __u64 scoped;
};
static_assert(sizeof(Ruleset) == 24);

constexpr uint64_t kMake = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                           LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr uint64_t kRemove = LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;

// A field that the kernel does not know must be left out by size, a right by its bit.
std::pair<Ruleset, size_t> RulesetOf(long abi) {
  Ruleset rules = {LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | kMake | kRemove, 0, 0};
  if (abi >= 2) rules.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) rules.handled_access_fs |= kTruncate;
  if (abi >= 5) rules.handled_access_fs |= kIoctlDev;
  if (abi >= 4) rules.handled_access_net = kNetBindConnect;
  if (abi >= 6) rules.scoped = kScopeAll;
  return {rules, abi >= 6 ? 24 : abi >= 4 ? 16 : 8};
}

Status Allow(int ruleset, const std::string& path, uint64_t access) {
  auto fd = OpenFile(path, O_PATH);
  if (!fd.ok()) return fd.status();
  landlock_path_beneath_attr rule = {access, fd->get()};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) return ErrnoError(errno, "landlock: " + path);
  return OkStatus();
}

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Status LimitFiles(const std::vector<std::string>& outputs) {
  long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return ErrnoError(errno, "landlock");
  auto [rules, size] = RulesetOf(abi);
  UniqueFd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, size, 0)));
  if (!ruleset.valid()) return ErrnoError(errno, "landlock");
  // Outputs are written beside their name and renamed, so that the folder is what must be open for it. A folder that
  // is not there is the command's own error, told when it opens the file.
  const uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | (rules.handled_access_fs & kTruncate);
  for (const std::string& output : outputs) {
    if (output.empty() || output == "-") continue;
    (void)Allow(ruleset.get(), FolderOf(output), write);
    // A link (/dev/stdout) leads elsewhere: what is there already may be written itself.
    const uint64_t file = LANDLOCK_ACCESS_FS_WRITE_FILE | (rules.handled_access_fs & (kTruncate | kIoctlDev));
    (void)Allow(ruleset.get(), output, file);
  }
  for (const char* device : {"/dev/null", "/dev/tty"}) (void)Allow(ruleset.get(), device, LANDLOCK_ACCESS_FS_WRITE_FILE | (rules.handled_access_fs & kIoctlDev));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoError(errno, "no_new_privs");
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return ErrnoError(errno, "landlock");
  return OkStatus();
}

}  // namespace brink
