#include "agent/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

namespace brink::agent {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Figures Example() {
  Figures f;
  f.version = "1.0";
  f.uptime_ns = 1'500'000'000;
  f.captures = 12345678901234;
  f.requests = {{"snap", 2}, {"status", 3}};
  f.flight = FlightFacts{.samples = 7, .bytes = 700};
  f.jobs.push_back({.id = 4, .kind = "snap", .client = "pid 1 uid 0", .file = "", .options = "--on oom", .state = "running", .ended = ""});
  return f;
}

TEST(AgentMetrics, FollowTheExpositionFormat) {
  const std::string text = PrometheusText(Example());
  EXPECT_THAT(text, HasSubstr("brink_agent_uptime_seconds 1.5\n"));
  EXPECT_THAT(text, HasSubstr("brink_agent_captures_total 12345678901234\n"));
  EXPECT_THAT(text, HasSubstr("brink_agent_requests_total{verb=\"snap\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("brink_agent_flight_samples 7\n"));
  // HELP, TYPE, then values of that name; counters end in _total; each name once.
  std::istringstream lines(text);
  std::set<std::string> names;
  std::string name, type;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, third, fourth;
    words >> first >> second >> third >> fourth;
    if (first == "#" && second == "HELP") {
      EXPECT_TRUE(names.insert(third).second) << third;
      EXPECT_FALSE(fourth.empty());
      name = third;
    } else if (first == "#") {
      EXPECT_EQ(second, "TYPE");
      EXPECT_EQ(third, name);
      EXPECT_EQ(fourth == "counter", name.ends_with("_total")) << name;
    } else {
      EXPECT_EQ(first.substr(0, first.find('{')), name);
      EXPECT_FALSE(second.empty());
      EXPECT_TRUE(third.empty());
    }
  }
}

TEST(AgentMetrics, HttpKnowsOnePath) {
  const Figures f = Example();
  EXPECT_THAT(HttpAnswer("GET /metrics HTTP/1.1\r\nHost: x", f), StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(HttpAnswer("GET /metrics?x=1 HTTP/1.0", f), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpAnswer("GET / HTTP/1.1", f), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(HttpAnswer("POST /metrics HTTP/1.1", f), StartsWith("HTTP/1.1 405"));
  for (const char* bad : {"", "GET", "GET /metrics", "GET /metrics FTP/1", "\r\n"}) EXPECT_THAT(HttpAnswer(bad, f), StartsWith("HTTP/1.1 400")) << bad;
}

TEST(AgentMetrics, StatusTellsTheSame) {
  auto json = StatusJson(Example());
  EXPECT_EQ(json["flight"]["samples"], 7);
  EXPECT_EQ(json["jobs"][0]["job"], 4);
  EXPECT_TRUE(json["jobs"][0]["ended"].is_null());
  EXPECT_TRUE(json["branch_filter"].is_null());
}

}  // namespace
}  // namespace brink::agent
