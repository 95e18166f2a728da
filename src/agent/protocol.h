// What agent and client say to each other (docs/agent.md): one JSON object a line, both ways. Pure.
//
//   -> {"id":1,"verb":"snap","options":["--on","signal:SEGV"]}
//   <- {"id":1,"ok":true,"result":{"job":3}}
//   <- {"id":1,"event":"capture","job":3,"capture":{...}}
//   <- {"id":1,"event":"end","job":3,"result":{...}}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace brink::agent {

inline constexpr const char* kSchema = "brink.agent.v1";
inline constexpr const char* kDefaultSocket = "/run/brink/agent.sock";
// A longer line ends the connection.
inline constexpr size_t kMostRequestBytes = 64u << 10;
inline constexpr size_t kMostOptions = 256;

enum class Verb { kStatus, kStart, kStop, kSnap, kDump, kFire };
std::string_view VerbName(Verb verb);

enum class JobKind { kRecord, kSnap };
std::string_view JobKindName(JobKind kind);

// What a client asks for. Fields that a verb does not take are refused, so that a typing error is not a wish ignored.
struct Request {
  int64_t id = 0;                     // the client's own number, given back in every answer
  Verb verb = Verb::kStatus;
  JobKind kind = JobKind::kSnap;      // start
  std::vector<std::string> options;   // start, snap: words as brink record and brink snap take them
  std::string name;                   // start, dump: name of the file in the agent's folder; "" made up
  std::optional<uint64_t> job;        // stop, fire
  bool dump = false;                  // start: each capture makes the flight recorder write its file
  bool text = false;                  // snap: captures as text for people instead of JSON
  bool colour = false;                // of that text
};

// INVALID_ARGUMENT says what is wrong, naming the field. `id`, where not null, is the id as far as it could be read.
StatusOr<Request> ParseRequest(std::string_view line, int64_t* id);
// As ParseRequest takes it, without a newline.
std::string RequestLine(const Request& request);

// Answers, each with its newline. Texts that are no UTF-8 are mended.
std::string HelloLine(std::string_view version);
std::string OkLine(int64_t id, const nlohmann::ordered_json& result);
// `code` is that of the status in words ("invalid_argument", "resource_exhausted").
std::string ErrorLine(int64_t id, const Status& status);
// `fields` go beside "event".
std::string EventLine(int64_t id, std::string_view event, const nlohmann::ordered_json& fields);
// The same, with the member `name` given as JSON text that is well formed.
std::string EventLineRaw(int64_t id, std::string_view event, uint64_t job, std::string_view name, std::string_view json);

// A file name that stays in its folder: letters, digits, "._-", not beginning with a dot, at most 100 characters.
bool IsFileName(std::string_view name);

// The name of a status code as ErrorLine writes it, and back (kUnknown for others).
std::string CodeName(absl::StatusCode code);
absl::StatusCode CodeByName(std::string_view name);

}  // namespace brink::agent
