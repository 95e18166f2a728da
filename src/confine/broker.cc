#include "confine/broker.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/capability.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/open_in_root.h"
#include "base/strings.h"
#include "base/sync.h"
#include "kernel/privileges.h"

namespace brink {
namespace {

constexpr size_t kMaxPath = 4096 + 64;

// "/proc/PID/root/PATH" or "/proc/PID/map_files/RANGE"; the rest is behind PID.
struct ForeignPath {
  std::string process;    // /proc/PID
  std::string in_root;    // below root; "" for map_files
  std::string map_range;  // "" for root
};

StatusOr<ForeignPath> Parse(std::string_view path) {
  const Status wrong = InvalidArgument("not a file of another process");
  constexpr std::string_view kProc = "/proc/";
  if (!path.starts_with(kProc) || path.find('\0') != std::string_view::npos) return wrong;
  size_t digits = path.find_first_not_of("0123456789", kProc.size());
  if (digits == kProc.size() || digits == std::string_view::npos) return wrong;
  ForeignPath result;
  result.process = path.substr(0, digits);
  std::string_view rest = path.substr(digits);
  if (rest.starts_with("/root/")) {
    result.in_root = rest.substr(6);
    return result.in_root.empty() ? StatusOr<ForeignPath>(wrong) : result;
  }
  if (!rest.starts_with("/map_files/")) return wrong;
  result.map_range = rest.substr(11);
  if (result.map_range.empty() || result.map_range.find_first_not_of("0123456789abcdef-") != std::string::npos) return wrong;
  return result;
}

StatusOr<UniqueFd> Regular(UniqueFd fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoError(errno, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  return fd;
}

// Sends an errno (0: the descriptor comes with it).
void Answer(int socket, const StatusOr<UniqueFd>& file) {
  int error = file.ok() ? 0 : ErrnoOf(file.status()) ? ErrnoOf(file.status()) : EACCES;
  iovec part = {&error, sizeof error};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file.ok()) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    int fd = file->get();
    __builtin_memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  (void)::sendmsg(socket, &message, MSG_NOSIGNAL);
}

[[noreturn]] void Serve(int socket) {
  // The terminal's signals are for the command; its end closes the socket.
  ::setsid();
  ::prctl(PR_SET_NAME, "brink-broker");
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
  ::close_range(static_cast<unsigned>(socket) + 1, ~0u, 0);
  (void)DropPrivileges({CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE});
  char path[kMaxPath];
  while (true) {
    ssize_t n = ::recv(socket, path, sizeof path, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(0);
    Answer(socket, OpenForeign(std::string(path, static_cast<size_t>(n))));
  }
}

StatusOr<UniqueFd> Ask(int socket, const std::string& path) {
  static Mutex one_at_a_time;
  MutexLock lock(one_at_a_time);
  iovec out = {const_cast<char*>(path.data()), path.size()};
  msghdr request = {};
  request.msg_iov = &out;
  request.msg_iovlen = 1;
  if (::sendmsg(socket, &request, MSG_NOSIGNAL) < 0) return ErrnoError(errno, path);
  int error = EACCES, fd = -1;
  iovec in = {&error, sizeof error};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr answer = {};
  answer.msg_iov = &in;
  answer.msg_iovlen = 1;
  answer.msg_control = control;
  answer.msg_controllen = sizeof control;
  ssize_t n;
  while ((n = ::recvmsg(socket, &answer, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
  if (n != static_cast<ssize_t>(sizeof error)) return ErrnoError(EACCES, path);
  if (cmsghdr* header = CMSG_FIRSTHDR(&answer); header && header->cmsg_type == SCM_RIGHTS) __builtin_memcpy(&fd, CMSG_DATA(header), sizeof fd);
  if (error != 0 || fd < 0) return ErrnoError(error ? error : EACCES, path);
  return UniqueFd(fd);
}

}  // namespace

StatusOr<UniqueFd> OpenForeign(const std::string& path) {
  if (path.starts_with(kScratchRequest)) return OpenFile(path.substr(sizeof(kScratchRequest) - 1), O_TMPFILE | O_RDWR | O_EXCL);
  ASSIGN_OR_RETURN(ForeignPath parts, Parse(path));
  if (!parts.map_range.empty()) {
    ASSIGN_OR_RETURN(UniqueFd file, OpenFile(path, O_RDONLY | O_NONBLOCK));
    return Regular(std::move(file), path);
  }
  ASSIGN_OR_RETURN(UniqueFd root, OpenFile(parts.process + "/root", O_PATH | O_DIRECTORY));
  // A link to /etc/shadow in somebody's container means the container's, not ours.
  auto file = OpenInRoot(root.get(), parts.in_root, O_RDONLY | O_NONBLOCK);
  if (!file.ok()) return ErrnoError(ErrnoOf(file.status()), path);
  return Regular(*std::move(file), path);
}

Status StartBroker() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoError(errno, "broker");
  UniqueFd ours(ends[0]), theirs(ends[1]);
  pid_t child = ::fork();
  if (child < 0) return ErrnoError(errno, "broker");
  if (child == 0) Serve(theirs.Release());
  int socket = ours.Release();  // for the life of the process
  SetForeignOpener([socket](const std::string& path) { return Ask(socket, path); });
  return OkStatus();
}

}  // namespace brink
