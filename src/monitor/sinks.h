// Where alarms go. Each sink is named by a word: FORMAT:PLACE.
//
//   json:- text:- json:FILE text:FILE ocsf:FILE falco:FILE     a line (text: some lines) each; files are appended to
//   unix:PATH                                                  JSON lines into a stream socket that somebody listens on
//   webhook:http://HOST:PORT/PATH                              one POST of JSON each
//   syslog, journald                                           one short line each; journald with fields
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "monitor/alarm_text.h"

namespace brink::cfi {

class AlarmSink {
 public:
  virtual ~AlarmSink() = default;
  // Never waits longer than a second. An error means that this alarm did not get through here.
  virtual Status Write(const Alarm& alarm) = 0;
  uint64_t failed = 0;  // alarms that did not get through
};

// INVALID_ARGUMENT for words of another form; files are opened at once.
StatusOr<std::unique_ptr<AlarmSink>> MakeSink(std::string_view word, const TextOptions& options);

}  // namespace brink::cfi
