// Sinks that others listen on.
#include "monitor/sinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/fd.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using ::testing::HasSubstr;
using testing_support::IsOk;
using testing_support::TempDir;

Alarm Simple() {
  Alarm alarm;
  alarm.violations = {{Policy::kMemory, Severity::kHigh, 0, 1, 2, Kind::kRet, "the target is the zero page"}};
  alarm.severity = Severity::kHigh;
  alarm.comm = "x";
  return alarm;
}

TEST(Sinks, AUnixSocketGetsLines) {
  TempDir dir;
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = dir.File("s");
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  auto sink = MakeSink("unix:" + path, {});
  ASSERT_THAT(sink, IsOk());
  ASSERT_THAT((*sink)->Write(Simple()), IsOk());
  UniqueFd peer(accept(listener.get(), nullptr, nullptr));
  char text[4096] = {};
  ASSERT_GT(read(peer.get(), text, sizeof text - 1), 0);
  EXPECT_THAT(text, HasSubstr("\"schema\":\"brink.cfi.alarm.v1\""));
  // The listener goes and comes back.
  peer.Reset();
  (void)(*sink)->Write(Simple());
  EXPECT_THAT((*sink)->Write(Simple()), IsOk());
}

TEST(Sinks, AWebhookPostsAndSaysWhatTheServerSaid) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  socklen_t size = sizeof address;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  auto sink = MakeSink("webhook:http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/hook", {});
  ASSERT_THAT(sink, IsOk());
  for (const char* answer : {"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 500 Broken\r\n\r\n"}) {
    std::string request;
    std::thread server([&] {
      UniqueFd peer(accept(listener.get(), nullptr, nullptr));
      char text[16384];
      while (request.find("\r\n\r\n") == request.npos || request.find("suppressed_count") == request.npos) {
        const ssize_t n = read(peer.get(), text, sizeof text);
        if (n <= 0) break;
        request.append(text, static_cast<size_t>(n));
      }
      (void)!write(peer.get(), answer, std::strlen(answer));
    });
    Status written = (*sink)->Write(Simple());
    server.join();
    EXPECT_THAT(request, HasSubstr("POST /hook HTTP/1.1\r\n"));
    EXPECT_THAT(request, HasSubstr("brink.cfi.alarm.v1"));
    EXPECT_EQ(written.ok(), std::string(answer).find("204") != std::string::npos);
  }
  listener.Reset();
  EXPECT_FALSE((*sink)->Write(Simple()).ok());
}

TEST(Sinks, WordsOfAnotherFormAreRefused) {
  for (const char* word : {"", "json", "xml:-", "unix:", "webhook:https://a/", "webhook:http://", "syslog:x"}) {
    auto sink = MakeSink(word, {});
    // Without a place: standard output.
    EXPECT_EQ(sink.ok(), std::string(word) == "json") << word;
  }
}

}  // namespace
}  // namespace brink::cfi
