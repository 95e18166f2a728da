// What the record tests share.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"

namespace brink::record_test {

// brink record with a report as JSON in `json`; the words follow "record".
struct Recording {
  testing_support::ProcessResult process;
  nlohmann::json json;
};
Recording RecordInto(const std::string& folder, std::vector<std::string> words, const testing_support::RunOptions& options = {});

// What brink's own reader finds in a file.
struct FileFacts {
  bool opened = false;
  bool complete = false;
  uint64_t samples = 0, lost_samples = 0;
  uint64_t last_time_ns = 0;
  bool in_order = true;
  std::map<uint32_t, uint64_t> samples_of_thread;
};
FileFacts ReadFacts(const std::string& path);

// Samples that a reader finds now in a file that is still being written: whole rounds, as they were flushed.
uint64_t CountSamples(const std::string& path);
// Until there are that many, a minute at the longest.
void WaitForSamples(const std::string& path, uint64_t count);

// A program started in the background with its standard streams on pipes; killed at the end.
class Background {
 public:
  explicit Background(const std::vector<std::string>& argv);
  ~Background();
  pid_t pid() const { return pid_; }
  std::string ReadLine();
  void Write(const std::string& text);
  // Exit status (128 + signal) once it has ended.
  int Wait();
  void Signal(int signal);

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  bool reaped_ = false;
};

bool HasProgram(const std::string& name);

}  // namespace brink::record_test
