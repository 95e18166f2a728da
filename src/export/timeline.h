// Formats that show call stacks: text out of collected samples.
#pragma once

#include <string>

#include "export/samples.h"

namespace brink::exporter {

// "comm;root;...;leaf COUNT", one stack a line, as flame graph programs read it. Counts are samples.
std::string FoldedText(const SampleCollector& samples, report::Program& program);
// google/pprof's profile.proto, gzipped: values "samples" and, for clock events, "cpu" in ns; lines and inlined frames
// where there is debug information.
StatusOr<std::string> PprofBytes(const SampleCollector& samples, report::Program& program);
// Trace Event JSON, which the Perfetto UI and chrome://tracing open: what each thread's stack was from sample to sample.
std::string PerfettoJson(const SampleCollector& samples, report::Program& program);
// https://www.speedscope.app/file-format-schema.json: one sampled profile a thread.
std::string SpeedscopeJson(const SampleCollector& samples, report::Program& program, const std::string& name);
// The Firefox profiler's processed format.
std::string FirefoxJson(const SampleCollector& samples, report::Program& program, const std::string& name);

// Samples of one thread each in the order of time; threads in the order of their first sample.
struct ThreadSamples {
  int32_t pid, tid;
  std::vector<TimedSample> samples;
};
std::vector<ThreadSamples> ByThread(const SampleCollector& samples);

// "name" of a frame for people: the function, or the object where it has none.
std::string FrameName(const StackNode& node, report::Program& program);

}  // namespace brink::exporter
