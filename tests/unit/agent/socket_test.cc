#include "agent/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/channel.h"
#include "support/status_matchers.h"
#include "support/process.h"

namespace brink::agent {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;

TEST(AgentSocket, IsForItsOwnerOnlyAndKnowsWhoComes) {
  testing_support::TempDir dir;
  const std::string path = dir.File("sock");
  auto listen = Listen(path);
  ASSERT_THAT(listen, IsOk());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto client = Connect(path);
  ASSERT_THAT(client, IsOk());
  UniqueFd server(accept(listen->fd.get(), nullptr, nullptr));
  auto peer = PeerOf(server.get());
  ASSERT_THAT(peer, IsOk());
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, getuid());
  EXPECT_TRUE(MayUse(*peer, geteuid()));
  EXPECT_FALSE(MayUse({.pid = 1, .uid = 1001, .gid = 0}, 1000));
  EXPECT_TRUE(MayUse({.pid = 1, .uid = 0, .gid = 0}, 1000));
}

TEST(AgentSocket, ASecondAgentIsRefusedAndALeftOverSocketReplaced) {
  testing_support::TempDir dir;
  const std::string path = dir.File("sock");
  {
    auto first = Listen(path);
    ASSERT_THAT(first, IsOk());
    EXPECT_THAT(std::string(Listen(path).status().message()), HasSubstr("another agent serves"));
  }
  // Closed without unlink, as after kill -9.
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(std::string(Connect(path).status().message()), HasSubstr("no agent at"));
  EXPECT_THAT(Listen(path), IsOk());
}

TEST(AgentSocket, OtherFilesAreNotRemoved) {
  testing_support::TempDir dir;
  const std::string path = dir.File("file");
  close(creat(path.c_str(), 0600));
  EXPECT_THAT(std::string(Listen(path).status().message()), HasSubstr("no socket"));
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_FALSE(Listen(std::string(200, 'x')).ok());
}

TEST(AgentSocket, MetricsAreOnTheLoopbackUnlessAskedOtherwise) {
  auto fd = ListenTcp("0");
  ASSERT_THAT(fd, IsOk());
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd->get(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&address);
  EXPECT_EQ(address.ss_family, AF_INET);
  EXPECT_EQ(bytes[4], 127);
  for (const char* bad : {"", "x", "host:1", "127.0.0.1:99999", "1.2.3:9"}) EXPECT_FALSE(ListenTcp(bad).ok()) << bad;
}

TEST(Channel, SplitsLinesHoweverTheyCome) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  Channel channel(UniqueFd(fds[0]), 64, 64);
  UniqueFd peer(fds[1]);
  ASSERT_EQ(write(peer.get(), "one\ntw", 6), 6);
  EXPECT_TRUE(channel.Receive());
  EXPECT_EQ(channel.Next("\n"), "one");
  EXPECT_EQ(channel.Next("\n"), std::nullopt);
  ASSERT_EQ(write(peer.get(), "o\n", 2), 2);
  EXPECT_TRUE(channel.Receive());
  EXPECT_EQ(channel.Next("\n"), "two");
  peer.Reset();
  EXPECT_FALSE(channel.Receive());
}

TEST(Channel, IsBoundedBothWays) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  Channel channel(UniqueFd(fds[0]), 64, 64);
  UniqueFd peer(fds[1]);
  EXPECT_TRUE(channel.Send(std::string(60, 'x'), false));
  EXPECT_FALSE(channel.Send("12345", false));
  EXPECT_TRUE(channel.Send("12345", true));
  EXPECT_TRUE(channel.Flush());
  EXPECT_FALSE(channel.wants_out());
  const std::string flood(100, 'y');
  ASSERT_EQ(write(peer.get(), flood.data(), flood.size()), 100);
  EXPECT_TRUE(channel.Receive());
  EXPECT_TRUE(channel.too_long());
}

}  // namespace
}  // namespace brink::agent
