#include "agent/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "support/status_matchers.h"

namespace brink::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::IsOk;

TEST(AgentProtocol, ARequestHoldsWhatItsVerbTakes) {
  int64_t id = 0;
  auto start = ParseRequest(R"({"id":7,"verb":"start","kind":"record","options":["-F","99","-a"],"name":"a.data"})", &id);
  ASSERT_THAT(start, IsOk());
  EXPECT_EQ(id, 7);
  EXPECT_EQ(start->verb, Verb::kStart);
  EXPECT_EQ(start->kind, JobKind::kRecord);
  EXPECT_THAT(start->options, ElementsAre("-F", "99", "-a"));
  EXPECT_EQ(start->name, "a.data");
  auto stop = ParseRequest(R"({"verb":"stop","job":3})", &id);
  ASSERT_THAT(stop, IsOk());
  EXPECT_EQ(id, 0);
  EXPECT_EQ(stop->job, 3u);
}

struct Refusal {
  const char* line;
  const char* says;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.line; }

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, SayWhatIsWrong) {
  auto request = ParseRequest(GetParam().line, nullptr);
  ASSERT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(request.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    testing::Values(Refusal{"", "one JSON object a line"}, Refusal{"[1]", "one JSON object a line"}, Refusal{"{\"verb\":\"status\"", "one JSON object a line"},
                    Refusal{R"({"a":{"b":{"c":{"d":{"e":1}}}}})", "one JSON object a line"}, Refusal{R"({"id":1})", "'verb' is missing"},
                    Refusal{R"({"id":"x","verb":"status"})", "'id' is no number"}, Refusal{R"({"id":18446744073709551615,"verb":"status"})", "'id' is no number"},
                    Refusal{R"({"verb":"statu"})", "nearest: status"}, Refusal{R"({"verb":"snap","option":[]})", "no field 'option'; nearest: options"},
                    Refusal{R"({"verb":"status","job":1})", "'status' takes no field 'job'"}, Refusal{R"({"verb":"stop"})", "needs the field 'job'"},
                    Refusal{R"({"verb":"stop","job":-1})", "'job' is no number"}, Refusal{R"({"verb":"start","options":[]})", "'kind' is neither"},
                    Refusal{R"({"verb":"start","kind":"record","dump":true})", "'dump' goes with kind snap"}, Refusal{R"({"verb":"snap","options":"--on"})", "'options' is no list"},
                    Refusal{R"({"verb":"snap","options":[1]})", "no text"}, Refusal{R"({"verb":"snap","options":["a\u0000b"]})", "NUL"},
                    Refusal{R"({"verb":"dump","name":"../x"})", "no plain file name"}, Refusal{R"({"verb":"dump","name":".x"})", "no plain file name"},
                    Refusal{R"({"verb":"snap","text":1})", "'text' is no boolean"}));

TEST(AgentProtocol, LinesThatAreTooLongAreNotRead) { EXPECT_FALSE(ParseRequest(std::string(kMostRequestBytes + 1, ' '), nullptr).ok()); }

TEST(AgentProtocol, WhatIsWrittenIsReadBack) {
  const Request requests[] = {{.id = 1, .verb = Verb::kStatus, .options = {}, .name = {}},
                              {.id = 2, .verb = Verb::kSnap, .options = {"--on", "x \"y\" \n"}, .name = {}, .text = true, .colour = true},
                              {.id = 3, .verb = Verb::kStart, .kind = JobKind::kSnap, .options = {"--on", "oom"}, .name = "f", .dump = true},
                              {.id = 4, .verb = Verb::kFire, .options = {}, .name = {}, .job = 12}};
  for (const Request& request : requests) {
    const std::string line = RequestLine(request);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    auto read = ParseRequest(line, nullptr);
    ASSERT_THAT(read, IsOk()) << line;
    EXPECT_EQ(read->id, request.id);
    EXPECT_EQ(read->verb, request.verb);
    EXPECT_EQ(read->options, request.options);
    EXPECT_EQ(read->name, request.name);
    EXPECT_EQ(read->dump, request.dump);
    EXPECT_EQ(read->text, request.text);
    EXPECT_EQ(read->job, request.job);
  }
}

TEST(AgentProtocol, AnswersAreOneLineOfJsonEach) {
  auto error = nlohmann::json::parse(ErrorLine(5, absl::AbortedError("busy: \xff\n")));
  EXPECT_EQ(error["id"], 5);
  EXPECT_EQ(error["ok"], false);
  EXPECT_EQ(error["error"]["code"], "busy");
  std::string raw = EventLineRaw(6, "capture", 2, "capture", R"({"pid":1})");
  EXPECT_EQ(std::count(raw.begin(), raw.end(), '\n'), 1);
  auto event = nlohmann::json::parse(raw);
  EXPECT_EQ(event["job"], 2);
  EXPECT_EQ(event["capture"]["pid"], 1);
  EXPECT_EQ(nlohmann::json::parse(HelloLine("v"))["schema"], kSchema);
}

TEST(AgentProtocol, CodesHaveNamesBothWays) {
  for (auto code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kAborted, absl::StatusCode::kResourceExhausted, absl::StatusCode::kNotFound}) EXPECT_EQ(CodeByName(CodeName(code)), code);
  EXPECT_EQ(CodeByName("moon"), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace brink::agent
