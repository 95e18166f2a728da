#include "top/top.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "base/signals.h"
#include "base/strings.h"
#include "top/live.h"
#include "top/recorder_child.h"
#include "top/terminal.h"

namespace brink::top {
namespace {

constexpr int kSequenceMs = 50;  // a lone Escape is known as such after this time
constexpr int kPatienceMs = 10'000;  // with a recorder that is asked to end
constexpr auto kFirstPicture = std::chrono::milliseconds(300);

using Clock = std::chrono::steady_clock;

class Loop {
 public:
  Loop(const TopSpec& spec, Terminal& terminal, Live& live, RecorderChild* recorder, RunSignals& signals)
      : spec_(spec), terminal_(terminal), live_(live), recorder_(recorder), signals_(signals), view_(&live) {}

  // Ok: the user ended it. An error: nothing was ever recorded, and why.
  brink::Status Run();

 private:
  brink::Status Picture();
  brink::Status Draw();
  void OnEnd();
  bool OnKeys(const std::vector<Key>& keys);
  std::vector<Key> ReadKeys();

  const TopSpec& spec_;
  Terminal& terminal_;
  Live& live_;
  RecorderChild* recorder_;
  RunSignals& signals_;
  View view_;
  KeyReader keys_;
  std::string message_;
  bool ended_ = false, dirty_ = true, hung_up_ = false;
};

void Loop::OnEnd() {
  ended_ = true;
  const brink::Status status = live_.status();
  if (!status.ok()) message_ = Message(status);
  if (!recorder_) return;
  const int exit = recorder_->Wait();
  if (exit != 0 || !status.ok()) message_ = recorder_->LastWords().empty() ? message_ : recorder_->LastWords();
}

brink::Status Loop::Draw() {
  Facts facts = live_.facts();
  facts.source = spec_.what;
  facts.ended = ended_;
  facts.message = message_;
  size_t rows, columns;
  terminal_.Size(&rows, &columns);
  dirty_ = false;
  return terminal_.Draw(view_.Draw(facts, rows, columns));
}

brink::Status Loop::Picture() {
  if (view_.paused()) return OkStatus();
  live_.Snapshot(view_.per_interval() && !ended_);
  view_.OnSnapshot();
  return Draw();
}

std::vector<Key> Loop::ReadKeys() {
  char bytes[256];
  const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
  if (n <= 0) hung_up_ = n == 0 || errno != EINTR;  // the terminal has gone
  return n > 0 ? keys_.Feed({bytes, static_cast<size_t>(n)}) : std::vector<Key>();
}

// False: the user wants to leave.
bool Loop::OnKeys(const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    const Wishes wishes = view_.OnKey(key);
    if (wishes.quit) return false;
    dirty_ |= wishes.redraw;
    if (wishes.reset && !ended_) {
      live_.Reset();
      view_.OnSnapshot();
    }
  }
  return true;
}

brink::Status Loop::Run() {
  const auto delay = std::chrono::nanoseconds(spec_.delay_ns);
  auto next = Clock::now() + std::min<Clock::duration>(kFirstPicture, delay);
  RETURN_IF_ERROR(Draw());
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count() + 1;
    int timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    if (ended_) timeout = -1;
    if (keys_.pending()) timeout = kSequenceMs;
    pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}, {ended_ ? -1 : live_.ended_fd(), POLLIN, 0}};
    const int ready = poll(fds, 3, timeout);
    if (ready < 0 && errno != EINTR) return ErrnoError(errno, "poll");
    if (ready == 0 && keys_.pending() && !OnKeys(keys_.Idle())) return OkStatus();
    if (fds[0].revents && !OnKeys(ReadKeys())) return OkStatus();
    if (hung_up_) return OkStatus();
    while (const int signal = signals_.Next()) {
      if (signal != SIGWINCH) return OkStatus();
      terminal_.Forget();
      dirty_ = true;
    }
    if (!ended_ && live_.ended()) {
      OnEnd();
      RETURN_IF_ERROR(Picture());
      if (live_.facts().samples == 0 && !message_.empty()) return FailedPrecondition(message_);
      dirty_ = true;
    }
    if (!ended_ && Clock::now() >= next) {
      next = Clock::now() + delay;
      RETURN_IF_ERROR(Picture());
    }
    if (dirty_) RETURN_IF_ERROR(Draw());
  }
}

// A stream on standard input leaves the keyboard to the terminal behind it.
brink::Status KeyboardFromTerminal(std::string* input) {
  const int stream = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  UniqueFd keyboard(open("/dev/tty", O_RDONLY | O_CLOEXEC));
  if (stream < 0 || !keyboard.valid()) return FailedPrecondition("needs a terminal for its keys");
  if (dup2(keyboard.get(), STDIN_FILENO) < 0) return ErrnoError(errno, "dup2");
  *input = "/proc/self/fd/" + std::to_string(stream);
  return OkStatus();
}

}  // namespace

StatusOr<TopResult> Run(const TopSpec& spec) {
  std::string path = spec.input;
  if (!isatty(STDOUT_FILENO)) return FailedPrecondition("needs a terminal; brink record and brink report do the same for files and pipes");
  if (path == "-") RETURN_IF_ERROR(KeyboardFromTerminal(&path));
  if (!isatty(STDIN_FILENO)) return FailedPrecondition("needs a terminal for its keys");
  RunSignals signals({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
  RETURN_IF_ERROR(signals.status());
  std::unique_ptr<RecorderChild> recorder;
  if (!spec.record.empty()) {
    ASSIGN_OR_RETURN(recorder, RecorderChild::Start(spec.record));
    path = recorder->stream_path();
  }
  TopResult result;
  brink::Status status;
  {
    Live live(path, spec.load);
    {
      auto terminal = Terminal::Open();
      status = terminal.ok() ? Loop(spec, **terminal, live, recorder.get(), signals).Run() : terminal.status();
    }
    if (recorder && !live.ended()) {
      // In order first: a recorder whose stream breaks leaves its command alone. One that hangs (with a command that does
      // not end) is killed.
      recorder->RequestEnd();
      pollfd wait = {live.ended_fd(), POLLIN, 0};
      (void)poll(&wait, 1, kPatienceMs);
    }
    live.Stop();
    live.Snapshot(false);
    const Facts facts = live.facts();
    result = {facts.samples, facts.branches, facts.lost, live.recording().problem_count};
  }
  RETURN_IF_ERROR(status);
  return result;
}

}  // namespace brink::top
