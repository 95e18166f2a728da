// Child processes and surroundings of tests.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace brink::testing_support {

struct ProcessResult {
  int status = -1;  // exit status; 128+signal when killed
  bool timed_out = false;
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string stdin_text;
  std::chrono::seconds timeout{60};
  std::string cwd;
  std::vector<std::string> env;  // NAME=VALUE, added to ours
};

// Runs argv to its end and collects what it printed. A timeout kills it.
ProcessResult Run(const std::vector<std::string>& argv, const RunOptions& options = {});
// Run with the built brink binary (BRINK_BINARY) in front.
ProcessResult RunBrink(std::vector<std::string> args, const RunOptions& options = {});

std::string BrinkBinary();
std::string SourceDir();

// A fresh folder, removed at the end with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// shared/data/NAME of the surroundings ($BRINK_SHARED or the folder beside the checkout); nothing where it is not
// there: then the test says GTEST_SKIP() << "needs the shared recordings".
std::optional<std::string> SharedData(const std::string& name);

}  // namespace brink::testing_support
