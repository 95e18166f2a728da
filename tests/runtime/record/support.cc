#include "support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "perfdata/reader.h"

namespace brink::record_test {

Recording RecordInto(const std::string& folder, std::vector<std::string> words, const testing_support::RunOptions& options) {
  std::string report = folder + "/report.json";
  std::vector<std::string> args = {"record", "--json=" + report};
  args.insert(args.end(), words.begin(), words.end());
  Recording recording;
  recording.process = testing_support::RunBrink(args, options);
  auto text = ReadFile(report);
  if (text.ok()) recording.json = nlohmann::json::parse(*text, nullptr, false);
  return recording;
}

FileFacts ReadFacts(const std::string& path) {
  FileFacts facts;
  auto reader = perfdata::Reader::Open(path, {.ordered = true});
  if (!reader.ok()) {
    ADD_FAILURE() << path << ": " << Message(reader.status());
    return facts;
  }
  facts.opened = true;
  perfdata::Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    if (!more.ok()) {
      ADD_FAILURE() << Message(more.status());
      return facts;
    }
    if (!*more) break;
    const auto* sample = record.sample();
    if (!sample) continue;
    ++facts.samples;
    ++facts.samples_of_thread[sample->tid];
    facts.in_order &= record.time >= facts.last_time_ns;
    facts.last_time_ns = record.time;
  }
  facts.complete = (*reader)->stats().complete();
  facts.lost_samples = (*reader)->stats().lost_samples;
  return facts;
}

uint64_t CountSamples(const std::string& path) {
  auto reader = perfdata::Reader::Open(path);
  if (!reader.ok()) return 0;
  uint64_t samples = 0;
  perfdata::Record record;
  while (true) {
    auto more = (*reader)->Next(&record);
    if (!more.ok() || !*more) return samples;
    samples += record.sample() != nullptr;
  }
}

void WaitForSamples(const std::string& path, uint64_t count) {
  for (int i = 0; i < 3000 && CountSamples(path) < count; ++i) usleep(20'000);
}

Background::Background(const std::vector<std::string>& argv) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    execv(words[0], words.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

Background::~Background() {
  if (!reaped_ && pid_ > 0) {
    kill(pid_, SIGKILL);
    Wait();
  }
  close(in_);
  close(out_);
}

std::string Background::ReadLine() {
  std::string line;
  char byte;
  while (read(out_, &byte, 1) == 1 && byte != '\n') line.push_back(byte);
  return line;
}

void Background::Write(const std::string& text) { EXPECT_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size())); }

int Background::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Background::Signal(int signal) { kill(pid_, signal); }

bool HasProgram(const std::string& name) { return testing_support::Run({"/bin/sh", "-c", "command -v " + name}).status == 0; }

}  // namespace brink::record_test
