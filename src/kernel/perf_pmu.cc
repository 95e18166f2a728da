#include "kernel/perf_pmu.h"

#include <filesystem>
#include <sys/stat.h>

#include <absl/strings/str_cat.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink {
namespace {

std::string PmuPath(const KernelRoots& roots, std::string_view pmu, std::string_view file = "") {
  std::string path = roots.sysfs + "/bus/event_source/devices/" + std::string(pmu);
  if (!file.empty()) path.append("/").append(file);
  return path;
}

// A name that becomes part of a path: letters, digits and the few marks that sysfs uses.
bool PlainName(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  for (char c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

std::string ListFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    std::string name = entry.path().filename();
    // NAME.scale and NAME.unit describe an event, they are none.
    if (name.find('.') == std::string::npos) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

struct Terms {
  ConfigWords words;
  int depth = 0;  // an event alias expands to terms once, not again
};

Status ApplyTerms(const KernelRoots& roots, std::string_view pmu, std::string_view text, EventSpec* event, Terms* terms);

Status ApplyTerm(const KernelRoots& roots, std::string_view pmu, std::string_view term, EventSpec* event, Terms* terms) {
  size_t equals = term.find('=');
  std::string name(Trim(term.substr(0, equals)));
  std::string_view text = equals == std::string_view::npos ? "1" : Trim(term.substr(equals + 1));
  if (!PlainName(name)) {
    return InvalidArgument("event " + event->name + ": '" + EscapeForTerminal(term) + "' is no term; write NAME or NAME=NUMBER");
  }
  if (equals == std::string_view::npos && terms->depth == 0 && PmuHasEvent(roots, pmu, name)) {
    ASSIGN_OR_RETURN(std::string alias, ReadPmuFile(roots, pmu, "events/" + name));
    ++terms->depth;
    Status status = ApplyTerms(roots, pmu, alias, event, terms);
    --terms->depth;
    return status;
  }
  if (name == "name") return OkStatus();  // a label; brink keeps what the user wrote
  auto value = ParseUint(text);
  if (!value.ok()) return Annotate(value.status(), "event " + event->name + ": term " + name);
  if (name == "config") return terms->words.config |= *value, OkStatus();
  if (name == "config1") return terms->words.config1 |= *value, OkStatus();
  if (name == "config2") return terms->words.config2 |= *value, OkStatus();
  if (name == "period") return event->period = *value, OkStatus();
  if (name == "freq") return event->frequency = *value, OkStatus();
  auto format = ReadPmuFile(roots, pmu, "format/" + name);
  if (!format.ok()) {
    return InvalidArgument(absl::StrCat("event ", event->name, ": PMU ", std::string(pmu), " has no term or event '", name, "'; terms: ",
                                        ListFolder(PmuPath(roots, pmu, "format")), "; events: ", ListFolder(PmuPath(roots, pmu, "events"))));
  }
  return Annotate(ApplyFormat(*format, *value, &terms->words), "event " + event->name + ": term " + name);
}

Status ApplyTerms(const KernelRoots& roots, std::string_view pmu, std::string_view text, EventSpec* event, Terms* terms) {
  for (std::string_view term : Split(text, ',')) {
    if (Trim(term).empty()) continue;
    RETURN_IF_ERROR(ApplyTerm(roots, pmu, Trim(term), event, terms));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::string> ReadPmuFile(const KernelRoots& roots, std::string_view pmu, std::string_view file) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(PmuPath(roots, pmu, file), 64 << 10));
  return std::string(Trim(text));
}

bool PmuExists(const KernelRoots& roots, std::string_view pmu) {
  struct stat st;
  return PlainName(pmu) && ::stat(PmuPath(roots, pmu, "type").c_str(), &st) == 0;
}

bool PmuHasEvent(const KernelRoots& roots, std::string_view pmu, std::string_view event) {
  struct stat st;
  return PlainName(event) && ::stat(PmuPath(roots, pmu, "events/" + std::string(event)).c_str(), &st) == 0;
}

Status ApplyFormat(std::string_view format, uint64_t value, ConfigWords* words) {
  size_t colon = format.find(':');
  std::string_view word = Trim(format.substr(0, colon));
  uint64_t* out = word == "config" ? &words->config : word == "config1" ? &words->config1 : word == "config2" ? &words->config2 : nullptr;
  if (!out || colon == std::string_view::npos) {
    return Unimplemented("the format '" + EscapeForTerminal(format) + "' is not one of config, config1, config2");
  }
  uint64_t left = value;
  for (std::string_view range : Split(Trim(format.substr(colon + 1)), ',')) {
    size_t dash = range.find('-');
    ASSIGN_OR_RETURN(uint64_t low, ParseUint(range.substr(0, dash)));
    uint64_t high = low;
    if (dash != std::string_view::npos) {
      ASSIGN_OR_RETURN(high, ParseUint(range.substr(dash + 1)));
    }
    if (high > 63 || low > high) return DataLoss("the format '" + EscapeForTerminal(format) + "' names impossible bits");
    uint64_t width = high - low + 1;
    uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    *out |= (left & mask) << low;
    left = width == 64 ? 0 : left >> width;
  }
  if (left) return InvalidArgument(absl::StrCat("value ", value, " does not fit the field '", std::string(format), "'"));
  return OkStatus();
}

Status ParsePmuTerms(const KernelRoots& roots, std::string_view pmu, std::string_view text, EventSpec* event) {
  if (!PmuExists(roots, pmu)) {
    return NotFound(absl::StrCat("event ", event->name, ": no PMU '", EscapeForTerminal(pmu), "' on this machine; there are: ",
                                 ListFolder(roots.sysfs + "/bus/event_source/devices")));
  }
  ASSIGN_OR_RETURN(std::string type, ReadPmuFile(roots, pmu, "type"));
  ASSIGN_OR_RETURN(uint64_t number, ParseUint(type));
  Terms terms;
  RETURN_IF_ERROR(ApplyTerms(roots, pmu, text, event, &terms));
  event->pmu = std::string(pmu);
  event->type = static_cast<uint32_t>(number);
  event->config = terms.words.config;
  event->config1 = terms.words.config1;
  event->config2 = terms.words.config2;
  // "cpus" is a core PMU's reach on hybrid machines, "cpumask" the CPUs an uncore PMU is read from.
  for (const char* file : {"cpus", "cpumask"}) {
    auto list = ReadPmuFile(roots, pmu, file);
    if (!list.ok() || list->empty()) continue;
    ASSIGN_OR_RETURN(event->cpus, ParseCpuList(*list));
    break;
  }
  return OkStatus();
}

}  // namespace brink
