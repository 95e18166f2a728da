// The agent's unix socket: who may come in.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace brink::agent {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// A listening socket of mode 0600 at `path`, whose folder must exist. A socket that an agent left behind when it was
// killed is replaced; one that still answers is FAILED_PRECONDITION. `lock` (PATH.lock) stays locked while the agent lives.
struct ListenSocket {
  UniqueFd fd, lock;
};
StatusOr<ListenSocket> Listen(const std::string& path);
// Connects, blocking. NOT_FOUND and the like say how an agent is started.
StatusOr<UniqueFd> Connect(const std::string& path);
// Who is at the other end, as the kernel says.
StatusOr<Peer> PeerOf(int fd);
// Root and the agent's own user.
bool MayUse(const Peer& peer, uid_t own);

// "9477", ":9477", "127.0.0.1:9477", "[::1]:9477". Without an address: the loopback. A listening socket.
StatusOr<UniqueFd> ListenTcp(const std::string& address);

}  // namespace brink::agent
