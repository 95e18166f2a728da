#include "agent/metrics.h"

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace brink::agent {
namespace {

using nlohmann::ordered_json;

ordered_json JobJson(const JobFigures& job) {
  ordered_json json = {{"job", job.id}, {"kind", job.kind}, {"state", job.state}, {"client", job.client}, {"options", job.options},
                       {"file", job.file.empty() ? ordered_json(nullptr) : ordered_json(job.file)}, {"captures", job.captures}, {"dropped", job.dropped},
                       {"over_rate", job.over_rate}, {"bytes", job.bytes}, {"age_ns", job.age_ns}};
  json["ended"] = job.ended.empty() ? ordered_json(nullptr) : ordered_json(job.ended);
  return json;
}

class Exposition {
 public:
  void Head(const char* name, const char* type, const char* help) { text_ += absl::StrFormat("# HELP brink_agent_%s %s\n# TYPE brink_agent_%s %s\n", name, help, name, type); }
  void Value(const char* name, double value, const std::string& labels = "") {
    // Counts stay exact as far as a double is.
    text_ += absl::StrFormat("brink_agent_%s%s %.15g\n", name, labels.empty() ? "" : "{" + labels + "}", value);
  }
  void Gauge(const char* name, const char* help, double value) {
    Head(name, "gauge", help);
    Value(name, value);
  }
  void Counter(const char* name, const char* help, double value) {
    Head(name, "counter", help);
    Value(name, value);
  }
  void CounterBy(const char* name, const char* help, const char* label, const std::map<std::string, uint64_t>& values) {
    Head(name, "counter", help);
    for (const auto& [key, value] : values) Value(name, static_cast<double>(value), std::string(label) + "=\"" + key + "\"");
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double Number(uint64_t value) { return static_cast<double>(value); }

}  // namespace

ordered_json StatusJson(const Figures& f) {
  ordered_json json = {{"schema", "brink.agent.status.v1"}, {"version", f.version}, {"pid", f.pid}, {"uptime_ns", f.uptime_ns}};
  json["budget"] = {{"max_rate", f.budgets.max_rate}, {"over_rate", f.over_rate}, {"max_cpu_percent", f.budgets.max_cpu_percent}, {"cpu_percent", f.cpu_percent},
                    {"paused", f.paused}, {"paused_ns", f.paused_ns}, {"pauses", f.pauses}, {"max_bytes", f.budgets.max_bytes}, {"bytes", f.bytes},
                    {"max_jobs", f.budgets.max_jobs}, {"max_clients", f.budgets.max_clients}};
  json["branch_filter"] = f.filter.empty() ? ordered_json(nullptr) : ordered_json(f.filter);
  json["clients"] = f.clients;
  json["flight"] = nullptr;
  if (f.flight) {
    json["flight"] = {{"source", f.flight_source}, {"window_ns", f.flight_window_ns}, {"samples", f.flight->samples}, {"bytes", f.flight->bytes},
                      {"side_band_bytes", f.flight->side_band_bytes}, {"span_ns", f.flight->span_ns}, {"seen", f.flight->seen},
                      {"evicted_by_size", f.flight->evicted_by_size}, {"lost", f.flight_lost}, {"dumps", f.dumps}, {"dumps_skipped", f.dumps_skipped}};
  }
  if (!f.flight_error.empty()) json["flight_error"] = f.flight_error;
  ordered_json jobs = ordered_json::array();
  for (const JobFigures& job : f.jobs) jobs.push_back(JobJson(job));
  json["jobs"] = jobs;
  return json;
}

std::string PrometheusText(const Figures& f) {
  Exposition out;
  out.Head("info", "gauge", "The running version.");
  out.Value("info", 1, "version=\"" + f.version + "\"");
  out.Gauge("uptime_seconds", "Since the agent started.", Seconds(f.uptime_ns));
  out.Counter("cpu_seconds_total", "CPU time of the agent itself.", Seconds(f.cpu_ns));
  out.Gauge("cpu_percent", "Mean CPU use of the last ten seconds, of one CPU.", f.cpu_percent);
  out.Gauge("cpu_percent_max", "Budget of cpu_percent; 0: none.", f.budgets.max_cpu_percent);
  out.Gauge("paused", "1 while everything is paused for the CPU budget.", f.paused ? 1 : 0);
  out.Counter("paused_seconds_total", "Time paused for the CPU budget.", Seconds(f.paused_ns));
  out.Counter("captures_total", "Captures of snap jobs handed out.", Number(f.captures));
  out.Counter("samples_total", "Samples written by recordings.", Number(f.samples));
  out.Counter("over_rate_total", "Captures refused by the rate budget.", Number(f.over_rate));
  out.Counter("dropped_total", "Captures that a slow client did not take.", Number(f.dropped));
  out.Counter("written_bytes_total", "Bytes of files written.", Number(f.bytes));
  out.Gauge("written_bytes_max", "Budget of written_bytes_total.", Number(f.budgets.max_bytes));
  out.Counter("jobs_started_total", "Jobs started.", Number(f.started));
  uint64_t running = 0;
  for (const JobFigures& job : f.jobs) running += job.ended.empty();
  out.Gauge("jobs", "Jobs that run.", Number(running));
  out.Gauge("clients", "Clients connected.", f.clients);
  out.Counter("connections_total", "Clients that came.", Number(f.connections));
  out.Counter("refused_connections_total", "Connections turned away: wrong user, or too many.", Number(f.refused));
  out.CounterBy("requests_total", "Requests by verb.", "verb", f.requests);
  out.CounterBy("failed_requests_total", "Requests answered with an error, by verb.", "verb", f.failures);
  out.Gauge("flight_up", "1 while the flight recorder runs.", f.flight ? 1 : 0);
  if (f.flight) {
    out.Gauge("flight_samples", "Samples that the flight recorder holds.", Number(f.flight->samples));
    out.Gauge("flight_bytes", "Bytes of those samples.", Number(f.flight->bytes));
    out.Gauge("flight_side_band_bytes", "Bytes of the records that name them.", Number(f.flight->side_band_bytes));
    out.Gauge("flight_span_seconds", "From the oldest to the newest sample held.", Seconds(f.flight->span_ns));
    out.Counter("flight_seen_total", "Samples that came to the flight recorder.", Number(f.flight->seen));
    out.Counter("flight_evicted_total", "Samples dropped for room, younger than the window.", Number(f.flight->evicted_by_size));
    out.Counter("flight_lost_total", "Samples that the pipeline lost.", Number(f.flight_lost));
  }
  out.Counter("dumps_total", "Files written by the flight recorder.", Number(f.dumps));
  out.Counter("dumps_skipped_total", "Dumps not made because another was just being made.", Number(f.dumps_skipped));
  return out.Take();
}

std::string HttpAnswer(std::string_view head, const Figures& figures) {
  const std::string_view first = head.substr(0, head.find_first_of("\r\n"));
  const size_t method = first.find(' ');
  const size_t target = method == std::string_view::npos ? method : first.find(' ', method + 1);
  auto answer = [](const char* status, const std::string& body, const char* type) {
    return absl::StrFormat("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, type, body.size(), body);
  };
  constexpr const char* kPlain = "text/plain; charset=utf-8";
  if (target == std::string_view::npos || !first.substr(target + 1).starts_with("HTTP/1.")) return answer("400 Bad Request", "not HTTP\n", kPlain);
  if (first.substr(0, method) != "GET") return answer("405 Method Not Allowed", "only GET\n", kPlain);
  std::string_view path = first.substr(method + 1, target - method - 1);
  path = path.substr(0, path.find('?'));
  if (path != "/metrics") return answer("404 Not Found", "the metrics are at /metrics\n", kPlain);
  return answer("200 OK", PrometheusText(figures), "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace brink::agent
