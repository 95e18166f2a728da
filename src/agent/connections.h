// The agent's sockets: clients with their lines, and whoever asks for the metrics. Knows nothing of requests.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/channel.h"
#include "agent/socket.h"
#include "base/status.h"

namespace brink::agent {

class Connections {
 public:
  struct Options {
    std::string socket, metrics;  // as in AgentOptions
    std::string hello;            // what a new client is told first
    uint32_t max_clients = 0;
  };
  // Called from Serve and Flush, on its thread.
  struct Handlers {
    std::function<void(uint64_t client, const std::string& line)> request;
    std::function<void(uint64_t client)> gone;               // before the client is forgotten
    std::function<std::string(std::string_view head)> http;  // the answer to a request's head
  };

  Connections(Options options, Handlers handlers) : options_(std::move(options)), handlers_(std::move(handlers)) {}
  Status Open();

  // What to wait for, appended; and, after the wait, the same entries.
  void Watch(std::vector<pollfd>* fds);
  void Serve(const pollfd* fds);
  // Nothing where the client is gone.
  void Answer(uint64_t client, const std::string& line);
  // For what may be left out. False: the client has no room for it. True where it is gone.
  bool Offer(uint64_t client, const std::string& line);
  // Writes what has been waiting for clients that read slowly.
  void Flush();
  // Forgets requests for the metrics that were answered or took too long.
  void Tick(uint64_t now);
  // Takes the socket away; clients stay until the end.
  void Close();

  const std::string& NameOf(uint64_t client) const { return clients_.at(client).name; }  // "pid 12 uid 0"
  size_t clients() const { return clients_.size(); }
  uint64_t accepted() const { return accepted_; }
  uint64_t refused() const { return refused_; }

 private:
  struct Client {
    Channel channel;
    std::string name;
  };
  struct HttpClient {
    Channel channel;
    uint64_t until_ns;
  };

  void AcceptClients();
  void AcceptHttp();
  void ServeClient(uint64_t id, short events);
  void ServeHttp(short events, HttpClient* http);
  void Drop(uint64_t id);

  Options options_;
  Handlers handlers_;
  ListenSocket listen_;
  UniqueFd metrics_;
  std::map<uint64_t, Client> clients_;
  std::vector<HttpClient> http_;
  std::vector<uint64_t> watched_;  // clients of the last Watch, in its order
  size_t watched_http_ = 0;
  uint64_t next_ = 1, accepted_ = 0, refused_ = 0;
};

}  // namespace brink::agent
