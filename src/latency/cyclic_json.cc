#include "latency/cyclic_json.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "latency/clock.h"

namespace brink::latency {
namespace {

// Bytes that are no UTF-8 (an argument may hold any) are replaced rather than refused.
std::string Quoted(const std::string& text) {
  return AsciiJson(nlohmann::json(text));
}

std::string MailTime(int64_t wall_ns) {
  time_t seconds = static_cast<time_t>(wall_ns / kNsPerSec);
  struct tm parts = {};
  ::localtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S %z", &parts);
  return text;
}

std::string ThreadJson(const ThreadResult& thread, const Result& result, const Config& config) {
  std::string out = absl::StrFormat("    \"%d\": {\n", thread.index);
  if (config.histogram) {
    out += "      \"histogram\": {";
    bool first = true;
    for (size_t i = 0; i < thread.linear.size(); ++i) {
      if (!thread.linear[i]) continue;
      absl::StrAppendFormat(&out, "%s\n        \"%d\": %d", first ? "" : ",", i * static_cast<size_t>(1000 / result.unit_ns), thread.linear[i]);
      first = false;
    }
    out += first ? "      },\n" : "\n      },\n";
  }
  absl::StrAppendFormat(&out, "      \"cycles\": %d,\n      \"min\": %d,\n      \"max\": %d,\n", thread.cycles,
                        thread.cycles ? thread.values.min() / result.unit_ns : 1'000'000, thread.values.max() / result.unit_ns);
  out += thread.cycles ? absl::StrFormat("      \"avg\": %.2f,\n", thread.sum_units / static_cast<double>(thread.cycles)) : "      \"avg\": null,\n";
  absl::StrAppendFormat(&out, "      \"cpu\": %d,\n      \"node\": %d\n    }", thread.cpu, thread.node);
  return out;
}

}  // namespace

std::string CyclicJson(const Result& result, const Config& config, int return_code) {
  struct utsname name = {};
  ::uname(&name);
  std::string out = "{\n  \"file_version\": 1,\n";
  out += "  \"cmdline:\": " + Quoted(result.command_line) + ",\n  \"rt_test_version:\": \"2.10\",\n";
  out += "  \"start_time\": " + Quoted(MailTime(result.start_wall_ns)) + ",\n  \"end_time\": " + Quoted(MailTime(result.end_wall_ns)) + ",\n";
  absl::StrAppendFormat(&out, "  \"return_code\": %d,\n  \"sysinfo\": {\n", return_code);
  out += "    \"sysname\": " + Quoted(name.sysname) + ",\n    \"nodename\": " + Quoted(name.nodename) + ",\n    \"release\": " + Quoted(name.release) +
         ",\n    \"version\": " + Quoted(name.version) + ",\n    \"machine\": " + Quoted(name.machine) + ",\n";
  absl::StrAppendFormat(&out, "    \"realtime\": %d\n  },\n", ::access("/sys/kernel/realtime", F_OK) == 0 ? 1 : 0);
  absl::StrAppendFormat(&out, "  \"num_threads\": %d,\n  \"resolution_in_ns\": %d,\n  \"thread\": {\n", result.threads.size(), result.unit_ns == 1 ? 1 : 0);
  for (size_t i = 0; i < result.threads.size(); ++i) {
    out += ThreadJson(result.threads[i], result, config) + (i + 1 < result.threads.size() ? ",\n" : "\n");
  }
  return out + "  }\n}\n";
}

}  // namespace brink::latency
