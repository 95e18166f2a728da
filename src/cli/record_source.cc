#include "cli/record_source.h"

#include <charconv>

#include "base/fd.h"
#include "base/strings.h"
#include "session/event_source.h"

namespace brink::cli {
namespace {

// One stack a line: "FROM/TO FROM/TO ..." in hexadecimal, newest first.
StatusOr<std::vector<ReplayStack>> ReadReplayFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::vector<ReplayStack> stacks;
  for (std::string_view line : Split(text, '\n')) {
    ReplayStack stack;
    for (std::string_view word : Split(Trim(line), ' ')) {
      if (word.empty()) continue;
      brink_branch entry = {.info = MakeInfo(Kind::kUnknown)};
      auto from = std::from_chars(word.data(), word.data() + word.size(), entry.from, 16);
      if (from.ec != std::errc() || from.ptr == word.data() + word.size() || *from.ptr != '/') return DataLoss(path + ": expected FROM/TO words");
      auto to = std::from_chars(from.ptr + 1, word.data() + word.size(), entry.to, 16);
      if (to.ec != std::errc()) return DataLoss(path + ": expected FROM/TO words");
      stack.entries.push_back(entry);
    }
    if (!stack.entries.empty()) stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) return InvalidArgument(path + ": no stacks");
  return stacks;
}

// Stacks of 32 that look like a loop with calls: for runs without recorded ones.
std::vector<ReplayStack> MadeUpStacks() {
  std::vector<ReplayStack> stacks(256);
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (uint64_t j = 0; j < 32; ++j) {
      uint64_t from = 0x401000 + 64 * ((i * 7 + j * 13) % 512);
      stacks[i].entries.push_back({from, from + 16 + 8 * (j % 5), MakeInfo(j % 4 == 0 ? Kind::kCall : Kind::kCond)});
    }
  }
  return stacks;
}

}  // namespace

Status ChooseSource(const RecordOptions& options, RecordRequest* request) {
  auto& events = request->spec.session.events;
  if (!options.events.empty()) {
    auto parsed = ParseEventList(options.events);
    if (!parsed.ok()) return Annotate(parsed.status(), "-e");
    events = std::move(*parsed);
  } else {
    ASSIGN_OR_RETURN(EventSpec clock, ParseEvent("cpu-clock"));
    events.push_back(std::move(clock));
  }
  if (options.source == "replay" || options.replay_count || !options.replay_file.empty()) {
    std::vector<ReplayStack> stacks = MadeUpStacks();
    if (!options.replay_file.empty()) {
      ASSIGN_OR_RETURN(stacks, ReadReplayFile(options.replay_file));
    }
    request->source = EventSource::Replay(std::move(stacks));
  } else if (options.source == "none" || options.source == "auto") {
    request->source = EventSource::None();
  } else {
    return InvalidArgument("--source: '" + EscapeForTerminal(options.source) + "' is none of auto, lbr, walk, hop, step, none");
  }
  return OkStatus();
}

}  // namespace brink::cli
