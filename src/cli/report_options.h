// Options that report, annotate, diff and top share: the recording, its filters, and where symbols come from.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "report/loader.h"

namespace brink::cli {

// Owns what its options store. Lives as long as the command.
struct ReportInputs {
  std::string input = "brink.data";
  report::LoadOptions load;
  bool no_demangle = false, no_lines = false;
  std::string colour = "auto";

  // -i, --pid, --tid, --comm, --where, --time; --symfs, --vmlinux, --kallsyms, --debug-dir, --no-demangle, --no-lines; --color.
  void AddOptions(std::vector<Option>* options, bool with_input = true);
  // What is put together after parsing.
  Status Finish();
  bool UseColour() const;
};

// Width of the terminal on standard output, 0 when it is none.
size_t TerminalWidth();

// Damage and losses as one line on stderr each; the exit status they ask for.
int ReportDamage(const char* command, const report::RecordingFacts& facts);

// Writes `text` to `path`, or to standard output when it is "" or "-".
Status WriteOutput(const std::string& path, const std::string& text);

}  // namespace brink::cli
