#include "top/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>

#include "base/fd.h"

namespace brink::top {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l";  // alternate screen, no cursor, no wrapping
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";

// At most `columns` characters, by code points.
std::string_view Cut(std::string_view text, size_t columns) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (width++ == columns) return text.substr(0, i);
  }
  return text;
}

std::string_view StyleCode(Style style) {
  switch (style) {
    case Style::kBold: return "\033[1m";
    case Style::kReverse: return "\033[7m";
    case Style::kDim: return "\033[2m";
    case Style::kPlain: break;
  }
  return "";
}

}  // namespace

std::string Painter::Paint(std::vector<Line> lines, size_t rows, size_t columns) {
  lines.resize(rows);
  const bool all = shown_.size() != rows || rows_ != rows || columns_ != columns;
  std::string out;
  if (all) out += "\033[2J";
  for (size_t row = 0; row < rows; ++row) {
    Line& line = lines[row];
    line.text = std::string(Cut(line.text, columns));
    if (!all && line == shown_[row]) continue;
    if (all && line.text.empty()) continue;
    out += "\033[" + std::to_string(row + 1) + ";1H" + std::string(StyleCode(line.style)) + line.text;
    if (line.style == Style::kReverse) out += "\033[K";  // the bar goes to the edge
    if (line.style != Style::kPlain) out += "\033[0m";
    if (line.style != Style::kReverse) out += "\033[K";
  }
  shown_ = std::move(lines);
  rows_ = rows;
  columns_ = columns;
  return out;
}

StatusOr<std::unique_ptr<Terminal>> Terminal::Open() {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return FailedPrecondition("needs a terminal");
  std::unique_ptr<Terminal> terminal(new Terminal());
  if (tcgetattr(STDIN_FILENO, &terminal->before_) != 0) return ErrnoError(errno, "cannot ask the terminal");
  termios raw = terminal->before_;
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON | INLCR | ISTRIP);
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0) return ErrnoError(errno, "cannot set the terminal");
  RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, kEnter.data(), kEnter.size()));
  return terminal;
}

Terminal::~Terminal() {
  (void)WriteAll(STDOUT_FILENO, kLeave.data(), kLeave.size());
  (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

void Terminal::Size(size_t* rows, size_t* columns) const {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  *rows = known ? size.ws_row : 24;
  *columns = known ? size.ws_col : 80;
}

Status Terminal::Draw(std::vector<Line> lines) {
  size_t rows, columns;
  Size(&rows, &columns);
  const std::string bytes = painter_.Paint(std::move(lines), rows, columns);
  return bytes.empty() ? OkStatus() : WriteAll(STDOUT_FILENO, bytes.data(), bytes.size());
}

}  // namespace brink::top
