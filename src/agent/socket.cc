#include "agent/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "base/units.h"

namespace brink::agent {
namespace {

StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return InvalidArgument("--socket: '" + EscapeForTerminal(path) + "' is no path of at most 107 bytes");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

StatusOr<ListenSocket> Listen(const std::string& path) {
  ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  ListenSocket out;
  ASSIGN_OR_RETURN(out.lock, OpenFile(path + ".lock", O_RDWR | O_CREAT));
  if (flock(out.lock.get(), LOCK_EX | LOCK_NB) != 0) return FailedPrecondition("another agent serves " + path + "; brink ctl status shows it, --socket PATH chooses another place");
  // Nobody else can be listening now: what lies there is left over.
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return FailedPrecondition(path + " is there and no socket");
    unlink(path.c_str());
  }
  out.fd.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.fd.valid()) return ErrnoError(errno, "unix socket");
  // Never open to others, not even between bind and chmod.
  const mode_t before = umask(0177);
  const int bound = bind(out.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(before);
  if (bound != 0) return ErrnoError(error, "bind " + path);
  if (listen(out.fd.get(), 16) != 0) return ErrnoError(errno, "listen at " + path);
  return out;
}

StatusOr<UniqueFd> Connect(const std::string& path) {
  ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "unix socket");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    // Who listens there decides what we print, and is told what we record.
    ASSIGN_OR_RETURN(Peer peer, PeerOf(fd.get()));
    if (!MayUse(peer, geteuid())) return PermissionDenied(path + " is served by user " + std::to_string(peer.uid) + ", who is neither root nor you");
    return fd;
  }
  if (errno == ENOENT || errno == ECONNREFUSED) return NotFound("no agent at " + path + ": start one with `brink agent` (or systemctl start brink-agent), or name its socket with --socket");
  if (errno == EACCES) return PermissionDenied("the agent at " + path + " serves root and its own user only");
  return ErrnoError(errno, "connect to " + path);
}

StatusOr<Peer> PeerOf(int fd) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return ErrnoError(errno, "credentials of a client");
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

bool MayUse(const Peer& peer, uid_t own) { return peer.uid == 0 || peer.uid == own; }

StatusOr<UniqueFd> ListenTcp(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon), port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  auto number = ParseUint(port);
  if (!number.ok() || *number > 65535) return InvalidArgument("--metrics '" + EscapeForTerminal(text) + "': expected [ADDRESS:]PORT, as 9477 or 127.0.0.1:9477");
  sockaddr_storage storage = {};
  socklen_t size = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(*number));
    size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(*number));
    size = sizeof(*v6);
  } else {
    return InvalidArgument("--metrics '" + EscapeForTerminal(text) + "': '" + EscapeForTerminal(host) + "' is no numeric address");
  }
  UniqueFd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "socket");
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) return ErrnoError(errno, "--metrics " + text);
  if (listen(fd.get(), 16) != 0) return ErrnoError(errno, "--metrics " + text);
  return fd;
}

}  // namespace brink::agent
