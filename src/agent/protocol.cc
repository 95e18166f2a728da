#include "agent/protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"

namespace brink::agent {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array kVerbs = {"status", "start", "stop", "snap", "dump", "fire"};
constexpr std::array kKinds = {"record", "snap"};

struct Field {
  const char* name;
  uint32_t verbs;  // bit per Verb
};
constexpr uint32_t Bit(Verb verb) { return 1u << static_cast<uint32_t>(verb); }
constexpr uint32_t kAll = 0x3f;
constexpr Field kFields[] = {{"id", kAll},
                             {"verb", kAll},
                             {"kind", Bit(Verb::kStart)},
                             {"options", Bit(Verb::kStart) | Bit(Verb::kSnap)},
                             {"name", Bit(Verb::kStart) | Bit(Verb::kDump)},
                             {"job", Bit(Verb::kStop) | Bit(Verb::kFire)},
                             {"dump", Bit(Verb::kStart)},
                             {"text", Bit(Verb::kSnap)},
                             {"colour", Bit(Verb::kSnap)}};

std::string Nearest(std::string_view word, std::vector<std::string> names) {
  std::string text;
  for (const std::string& name : NearestNames(word, names)) text += (text.empty() ? "; nearest: " : ", ") + name;
  return text;
}

Status CheckFields(const json& object, Verb verb) {
  for (const auto& [name, value] : object.items()) {
    auto* field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) { return name == f.name; });
    if (field != std::end(kFields) && field->verbs & Bit(verb)) continue;
    std::vector<std::string> taken;
    for (const Field& f : kFields) {
      if (f.verbs & Bit(verb)) taken.emplace_back(f.name);
    }
    return InvalidArgument("'" + std::string(VerbName(verb)) + "' takes no field '" + EscapeForTerminal(name) + "'" + Nearest(name, taken));
  }
  return OkStatus();
}

Status TakeBool(const json& object, const char* name, bool* out) {
  auto it = object.find(name);
  if (it == object.end()) return OkStatus();
  if (!it->is_boolean()) return InvalidArgument(std::string("'") + name + "' is no boolean");
  *out = it->get<bool>();
  return OkStatus();
}

Status TakeOptions(const json& object, std::vector<std::string>* out) {
  auto it = object.find("options");
  if (it == object.end()) return OkStatus();
  if (!it->is_array()) return InvalidArgument("'options' is no list of texts");
  if (it->size() > kMostOptions) return InvalidArgument("'options' holds more than " + std::to_string(kMostOptions) + " words");
  for (const json& word : *it) {
    if (!word.is_string()) return InvalidArgument("'options' holds something that is no text");
    out->push_back(word.get<std::string>());
    // Words end up as C strings.
    if (out->back().find('\0') != std::string::npos) return InvalidArgument("'options' holds a NUL");
  }
  return OkStatus();
}

Status TakeFields(const json& object, Request* request) {
  RETURN_IF_ERROR(TakeBool(object, "dump", &request->dump));
  RETURN_IF_ERROR(TakeBool(object, "text", &request->text));
  RETURN_IF_ERROR(TakeBool(object, "colour", &request->colour));
  RETURN_IF_ERROR(TakeOptions(object, &request->options));
  if (auto it = object.find("name"); it != object.end()) {
    if (!it->is_string() || !IsFileName(it->get<std::string>())) return InvalidArgument("'name' is no plain file name (letters, digits, '.', '_', '-')");
    request->name = it->get<std::string>();
  }
  if (auto it = object.find("job"); it != object.end()) {
    if (!it->is_number_unsigned()) return InvalidArgument("'job' is no number");
    request->job = it->get<uint64_t>();
  }
  if (request->verb == Verb::kStart) {
    auto it = object.find("kind");
    std::string kind = it != object.end() && it->is_string() ? it->get<std::string>() : "";
    auto known = std::find(kKinds.begin(), kKinds.end(), kind);
    if (known == kKinds.end()) return InvalidArgument("'kind' is neither record nor snap");
    request->kind = static_cast<JobKind>(known - kKinds.begin());
    if (request->dump && request->kind != JobKind::kSnap) return InvalidArgument("'dump' goes with kind snap");
  }
  if ((request->verb == Verb::kStop || request->verb == Verb::kFire) && !request->job) return InvalidArgument("'" + std::string(VerbName(request->verb)) + "' needs the field 'job'");
  return OkStatus();
}

std::string Line(const ordered_json& object) { return AsciiJson(object) + "\n"; }

}  // namespace

std::string_view VerbName(Verb verb) { return kVerbs[static_cast<size_t>(verb)]; }
std::string_view JobKindName(JobKind kind) { return kKinds[static_cast<size_t>(kind)]; }

bool IsFileName(std::string_view name) {
  auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && name[0] != '-' && std::all_of(name.begin(), name.end(), plain);
}

StatusOr<Request> ParseRequest(std::string_view line, int64_t* id) {
  if (id) *id = 0;
  if (line.size() > kMostRequestBytes) return InvalidArgument("a request is one line of at most " + std::to_string(kMostRequestBytes) + " bytes");
  // Nested deeper than a request ever is: not even parsed, as the parser's stack is ours.
  int depth = 0;
  auto shallow = [&depth](int at, json::parse_event_t, json&) {
    depth = std::max(depth, at);
    return at <= 4;
  };
  json object = json::parse(line, shallow, false);
  if (object.is_discarded() || !object.is_object() || depth > 4) return InvalidArgument("a request is one JSON object a line");
  Request request;
  if (auto it = object.find("id"); it != object.end()) {
    if (!it->is_number_integer() || (it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX)) return InvalidArgument("'id' is no number");
    request.id = it->get<int64_t>();
    if (id) *id = request.id;
  }
  auto verb = object.find("verb");
  if (verb == object.end() || !verb->is_string()) return InvalidArgument("the field 'verb' is missing: status, start, stop, snap, dump or fire");
  const std::string name = verb->get<std::string>();
  auto known = std::find(kVerbs.begin(), kVerbs.end(), name);
  if (known == kVerbs.end()) return InvalidArgument("unknown verb '" + EscapeForTerminal(name) + "'" + Nearest(name, {kVerbs.begin(), kVerbs.end()}));
  request.verb = static_cast<Verb>(known - kVerbs.begin());
  RETURN_IF_ERROR(CheckFields(object, request.verb));
  RETURN_IF_ERROR(TakeFields(object, &request));
  return request;
}

std::string RequestLine(const Request& request) {
  ordered_json object = {{"id", request.id}, {"verb", VerbName(request.verb)}};
  auto takes = [&](const char* name) {
    for (const Field& field : kFields) {
      if (std::string_view(field.name) == name) return (field.verbs & Bit(request.verb)) != 0;
    }
    return false;
  };
  if (takes("kind")) object["kind"] = JobKindName(request.kind);
  if (takes("options") && !request.options.empty()) object["options"] = request.options;
  if (takes("name") && !request.name.empty()) object["name"] = request.name;
  if (takes("job") && request.job) object["job"] = *request.job;
  if (takes("dump") && request.dump) object["dump"] = true;
  if (takes("text") && request.text) object["text"] = true;
  if (takes("colour") && request.colour) object["colour"] = true;
  std::string line = Line(object);
  line.pop_back();
  return line;
}

std::string HelloLine(std::string_view version) { return Line({{"schema", kSchema}, {"event", "hello"}, {"version", version}}); }

std::string OkLine(int64_t id, const ordered_json& result) { return Line({{"id", id}, {"ok", true}, {"result", result}}); }

std::string ErrorLine(int64_t id, const Status& status) {
  return Line({{"id", id}, {"ok", false}, {"error", {{"code", CodeName(status.code())}, {"message", Message(status)}}}});
}

std::string EventLine(int64_t id, std::string_view event, const ordered_json& fields) {
  ordered_json object = {{"id", id}, {"event", event}};
  for (const auto& [name, value] : fields.items()) object[name] = value;
  return Line(object);
}

std::string EventLineRaw(int64_t id, std::string_view event, uint64_t job, std::string_view name, std::string_view text) {
  std::string line = Line({{"id", id}, {"event", event}, {"job", job}});
  line.resize(line.size() - 2);
  return line + ",\"" + std::string(name) + "\":" + std::string(text) + "}\n";
}

namespace {
constexpr std::pair<absl::StatusCode, const char*> kCodes[] = {
    {absl::StatusCode::kInvalidArgument, "invalid_argument"},     {absl::StatusCode::kNotFound, "not_found"},
    {absl::StatusCode::kPermissionDenied, "permission_denied"},   {absl::StatusCode::kResourceExhausted, "resource_exhausted"},
    {absl::StatusCode::kFailedPrecondition, "failed_precondition"}, {absl::StatusCode::kUnimplemented, "unimplemented"},
    {absl::StatusCode::kUnavailable, "unavailable"},              {absl::StatusCode::kAlreadyExists, "already_exists"},
    {absl::StatusCode::kInternal, "internal"},                    {absl::StatusCode::kAborted, "busy"}};
}  // namespace

std::string CodeName(absl::StatusCode code) {
  for (const auto& [known, name] : kCodes) {
    if (known == code) return name;
  }
  return "unknown";
}

absl::StatusCode CodeByName(std::string_view name) {
  for (const auto& [code, known] : kCodes) {
    if (name == known) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace brink::agent
