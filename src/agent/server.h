// The agent: a loop that serves clients, and the jobs and the flight recorder that it keeps.
#pragma once

#include <memory>
#include <string>

#include "agent/budget.h"
#include "agent/flight.h"
#include "agent/job.h"

namespace brink::agent {

struct AgentOptions {
  std::string socket;             // path of the unix socket; its folder is made where it is missing
  std::string dir;                // where files are written; made where it is missing
  std::string metrics;            // [ADDRESS:]PORT; "" none
  Budgets budgets;
  FlightLimits flight;
  std::vector<std::string> flight_options;  // words of brink record; empty: no flight recorder
  std::vector<std::vector<std::string>> dump_on;  // words of brink snap: jobs of the agent's own that make a dump
  std::string version;
  Factories factories;
  // Called once everything serves, with lines for people.
  std::function<void(const std::vector<std::string>& lines)> ready;
};

// Blocks until SIGINT, SIGTERM or SIGHUP. Then every job ends in order, nothing stays attached and the socket is removed.
// SIGUSR1 makes the flight recorder write its file. An error is one of starting; what fails later is told to clients.
Status Serve(AgentOptions options);

}  // namespace brink::agent
