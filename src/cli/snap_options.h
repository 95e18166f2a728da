// The options of `brink snap`, and what they ask for: for the command and for the agent's jobs.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "snap/run.h"
#include "snap/trace.h"

namespace brink::cli {

struct SnapOptions {
  SnapOptions();  // fills `command`, whose setters are bound to this object: not copyable
  SnapOptions(const SnapOptions&) = delete;
  SnapOptions& operator=(const SnapOptions&) = delete;

  // Checks the options and fills the request, but for its callbacks. `rest`: the command.
  Status Fill(const std::vector<std::string>& rest, snap::RunRequest* request) const;
  // The other thing that snap does: --trace-between.
  Status FillTrace(const std::vector<std::string>& rest, snap::TraceRequest* request) const;
  // How captures are printed; colour is the caller's.
  snap::PrintOptions Print() const;

  CommandSpec command;
  std::vector<std::string> triggers;
  std::string errno_path, trace_between, condition, slower, limit, once_per, source = "auto", priv, pids, tids, output, runtime_root, colour = "auto";
  uint64_t nth = 1, count = 0, duration_ns = 0, pidns = 0, most_branches = 32, depth = 0;
  bool no_chain = false, history = false, json = false, quiet = false, registers = false;
  snap::GroupRequest groups;

 private:
  // By the headings of --help. Their setters are bound to this object.
  std::vector<Option> WhenOptions();
  std::vector<Option> WhoseOptions();
  std::vector<Option> WhatOptions();
  std::vector<Option> OutputOptions();
};

}  // namespace brink::cli
