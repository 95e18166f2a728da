#include "recording.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace brink::guest {
namespace {

template <typename T>
T Get(const std::string& file, uint64_t at) {
  T value = {};
  if (at + sizeof(value) <= file.size()) memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

// The 64-bit words of a sample in the order of the sample_type bits that come before the branch stack.
Sample ReadSample(const std::string& file, uint64_t at, uint64_t type, uint64_t branch_type) {
  Sample sample;
  auto next = [&] { return Get<uint64_t>(file, std::exchange(at, at + 8)); };
  if (type & PERF_SAMPLE_IDENTIFIER) next();
  if (type & PERF_SAMPLE_IP) sample.ip = next();
  if (type & PERF_SAMPLE_TID) sample.tgid = next() & 0xffffffff;
  for (uint64_t bit : {PERF_SAMPLE_TIME, PERF_SAMPLE_ADDR, PERF_SAMPLE_ID, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD})
    if (type & bit) next();
  BRINK_CHECK(!(type & PERF_SAMPLE_READ));
  if (type & PERF_SAMPLE_CALLCHAIN) {
    uint64_t frames = next();
    at += 8 * frames;
  }
  if (type & PERF_SAMPLE_RAW) at += 4 + Get<uint32_t>(file, at);
  if (!(type & PERF_SAMPLE_BRANCH_STACK)) return sample;
  uint64_t entries = next();
  if (branch_type & PERF_SAMPLE_BRANCH_HW_INDEX) sample.hw_idx = next();
  for (uint64_t i = 0; i < entries; i++, at += sizeof(guest_branch)) sample.stack.push_back(Get<guest_branch>(file, at));
  return sample;
}

}  // namespace

Recording ReadRecording(const std::string& path) {
  Recording recording;
  auto file = ReadFile(path, 256u << 20);
  if (!file.ok() || file->compare(0, 8, "PERFILE2") != 0) return recording;
  const uint64_t attr_size = Get<uint64_t>(*file, 16), attrs = Get<uint64_t>(*file, 24), attrs_bytes = Get<uint64_t>(*file, 32);
  const uint64_t data = Get<uint64_t>(*file, 40), data_bytes = Get<uint64_t>(*file, 48);
  uint64_t type = 0;
  for (uint64_t at = attrs; at < attrs + attrs_bytes; at += attr_size) {
    auto attr = Get<perf_event_attr>(*file, at);
    if (!(attr.sample_type & PERF_SAMPLE_BRANCH_STACK)) continue;
    type = attr.sample_type;
    recording.branch_type = attr.branch_sample_type;
    break;
  }
  for (uint64_t at = data; at < data + data_bytes;) {
    auto header = Get<perf_event_header>(*file, at);
    if (header.size < sizeof(header)) break;
    if (header.type == PERF_RECORD_SAMPLE) recording.samples.push_back(ReadSample(*file, at + sizeof(header), type, recording.branch_type));
    at += header.size;
  }
  return recording;
}

int RunBrinkHere(const std::vector<std::string>& words, std::string& said) {
  std::string command = getenv("BRINK_BINARY") ? getenv("BRINK_BINARY") : "brink";
  for (const std::string& word : words) command += " '" + word + "'";
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  BRINK_CHECK(pipe != nullptr);
  for (char buffer[4096]; size_t got = fread(buffer, 1, sizeof(buffer), pipe);) said.append(buffer, got);
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace brink::guest
