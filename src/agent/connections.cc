#include "agent/connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include <absl/strings/str_format.h>

#include "agent/job.h"
#include "agent/protocol.h"
#include "base/strings.h"

namespace brink::agent {
namespace {

// What a client may leave unread before its next request waits.
constexpr size_t kCrowded = 1u << 20;
constexpr size_t kMostOut = 8u << 20, kMostHttp = 16, kMostHttpHead = 8192;
constexpr uint64_t kHttpTimeNs = 5'000'000'000;

short Wanted(const Channel& channel, bool waits_for_room = false) {
  return static_cast<short>((channel.unsent() < kCrowded ? POLLIN : 0) | (channel.wants_out() || waits_for_room ? POLLOUT : 0));
}

UniqueFd Accept(int fd) { return UniqueFd(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); }

}  // namespace

Status Connections::Open() {
  ASSIGN_OR_RETURN(listen_, Listen(options_.socket));
  if (options_.metrics.empty()) return OkStatus();
  ASSIGN_OR_RETURN(metrics_, ListenTcp(options_.metrics));
  return OkStatus();
}

void Connections::Watch(std::vector<pollfd>* fds) {
  fds->push_back({listen_.fd.get(), POLLIN, 0});
  fds->push_back({metrics_.get(), POLLIN, 0});
  watched_.clear();
  for (auto& [id, client] : clients_) {
    watched_.push_back(id);
    // A request that had to wait is taken up once there is room to write: at once, where all has been read meanwhile.
    fds->push_back({client.channel.fd(), Wanted(client.channel, client.channel.has_line()), 0});
  }
  watched_http_ = http_.size();
  for (HttpClient& client : http_) fds->push_back({client.channel.fd(), Wanted(client.channel), 0});
}

void Connections::Serve(const pollfd* fds) {
  const pollfd* next = fds + 2;
  for (uint64_t id : watched_) {
    const short events = (next++)->revents;
    if (events && clients_.contains(id)) ServeClient(id, events);
  }
  for (size_t i = 0; i < watched_http_; ++i) {
    const short events = (next++)->revents;
    if (events) ServeHttp(events, &http_[i]);
  }
  if (fds[0].revents) AcceptClients();
  if (fds[1].revents) AcceptHttp();
}

void Connections::AcceptClients() {
  while (true) {
    UniqueFd fd = Accept(listen_.fd.get());
    if (!fd.valid()) return;
    ++accepted_;
    auto peer = PeerOf(fd.get());
    const bool full = clients_.size() >= options_.max_clients;
    Channel channel(std::move(fd), kMostRequestBytes, kMostOut);
    if (!peer.ok() || !MayUse(*peer, geteuid()) || full) {
      ++refused_;
      Status why = full ? ResourceExhausted("the agent has as many clients as it takes (--max-clients)") : PermissionDenied("the agent serves root and its own user only");
      channel.Send(ErrorLine(0, why), true);
      channel.Flush();
      continue;
    }
    channel.Send(options_.hello, true);
    channel.Flush();
    clients_.emplace(next_++, Client{std::move(channel), absl::StrFormat("pid %d uid %d", peer->pid, peer->uid)});
  }
}

void Connections::AcceptHttp() {
  while (true) {
    UniqueFd fd = Accept(metrics_.get());
    if (!fd.valid()) return;
    if (http_.size() >= kMostHttp) continue;
    http_.push_back({Channel(std::move(fd), kMostHttpHead, kMostOut), NowNs() + kHttpTimeNs});
  }
}

void Connections::ServeHttp(short events, HttpClient* http) {
  bool alive = true;
  if (events & (POLLIN | POLLHUP | POLLERR)) alive = http->channel.Receive();
  if (auto head = http->channel.Next("\r\n\r\n")) {
    http->channel.Send(handlers_.http(*head), true);
    http->channel.CloseWhenSent();
    alive = true;
  }
  if (!alive || http->channel.too_long() || !http->channel.Flush()) http->until_ns = 0;
}

void Connections::ServeClient(uint64_t id, short events) {
  Client& client = clients_.at(id);
  bool alive = client.channel.Flush();
  if ((events & (POLLIN | POLLHUP | POLLERR)) && client.channel.unsent() < kCrowded) alive = client.channel.Receive() && alive;
  std::optional<std::string> line;
  while (client.channel.unsent() < kCrowded && (line = client.channel.Next("\n"))) {
    if (!Trim(*line).empty()) handlers_.request(id, *line);
  }
  if (client.channel.unsent() < kCrowded && client.channel.too_long()) {
    client.channel.Send(ErrorLine(0, InvalidArgument("a request is one line of at most " + std::to_string(kMostRequestBytes) + " bytes")), true);
    client.channel.Flush();
    alive = false;
  }
  if (!client.channel.Flush()) alive = false;
  if (!alive) Drop(id);
}

void Connections::Drop(uint64_t id) {
  handlers_.gone(id);
  clients_.erase(id);
}

void Connections::Answer(uint64_t client, const std::string& line) {
  auto it = clients_.find(client);
  if (it == clients_.end()) return;
  it->second.channel.Send(line, true);
  it->second.channel.Flush();
}

bool Connections::Offer(uint64_t client, const std::string& line) {
  auto it = clients_.find(client);
  return it == clients_.end() || it->second.channel.Send(line, false);
}

void Connections::Flush() {
  std::vector<uint64_t> gone;
  for (auto& [id, client] : clients_) {
    if (!client.channel.Flush()) gone.push_back(id);
  }
  for (uint64_t id : gone) Drop(id);
}

void Connections::Tick(uint64_t now) {
  std::erase_if(http_, [&](const HttpClient& http) { return http.until_ns <= now || http.channel.done(); });
}

void Connections::Close() {
  if (listen_.fd.valid()) unlink(options_.socket.c_str());
}

}  // namespace brink::agent
