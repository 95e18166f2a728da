// The agent's figures: one structure for `status` (JSON) and for Prometheus (text). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/budget.h"
#include "agent/flight.h"

namespace brink::agent {

struct JobFigures {
  uint64_t id = 0;
  std::string kind, client, file, options, state;
  uint64_t captures = 0, dropped = 0, over_rate = 0, bytes = 0, age_ns = 0;
  std::string ended;  // why; "" runs
};

struct Figures {
  std::string version;
  int pid = 0;
  uint64_t uptime_ns = 0;
  Budgets budgets;
  double cpu_percent = 0;
  bool paused = false;
  uint64_t cpu_ns = 0, paused_ns = 0, pauses = 0, bytes = 0, over_rate = 0;
  std::string filter;                 // held branch filter
  uint32_t clients = 0;
  uint64_t connections = 0, refused = 0;
  std::map<std::string, uint64_t> requests, failures;  // by verb
  std::optional<FlightFacts> flight;
  std::string flight_source, flight_error;
  uint64_t flight_window_ns = 0, flight_lost = 0, dumps = 0, dumps_skipped = 0;
  uint64_t captures = 0, samples = 0, dropped = 0, started = 0;  // of all jobs, ended ones too
  std::vector<JobFigures> jobs;       // running, then those that ended last
};

nlohmann::ordered_json StatusJson(const Figures& figures);
// Exposition format 0.0.4.
std::string PrometheusText(const Figures& figures);
// Answers one HTTP request head (without the empty line): the whole response.
std::string HttpAnswer(std::string_view head, const Figures& figures);

}  // namespace brink::agent
