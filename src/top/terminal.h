// The terminal as a grid of lines: raw input, the alternate screen, and drawing of what changed.
#pragma once

#include <termios.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace brink::top {

enum class Style { kPlain, kBold, kReverse, kDim };

struct Line {
  std::string text;  // without control characters
  Style style = Style::kPlain;
  friend bool operator==(const Line&, const Line&) = default;
};

// The bytes that turn what is on the screen into `lines`, at most `rows` of them, each cut to `columns` characters. Pure.
class Painter {
 public:
  std::string Paint(std::vector<Line> lines, size_t rows, size_t columns);
  // The screen's content is not known any more (resized).
  void Forget() { shown_.clear(); }

 private:
  std::vector<Line> shown_;
  size_t rows_ = 0, columns_ = 0;
};

// Restores everything at its end, also the content of the screen.
class Terminal {
 public:
  // FAILED_PRECONDITION unless both standard input and output are terminals.
  static StatusOr<std::unique_ptr<Terminal>> Open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Asked of the terminal each time; 24 by 80 where it does not say.
  void Size(size_t* rows, size_t* columns) const;
  Status Draw(std::vector<Line> lines);
  void Forget() { painter_.Forget(); }

 private:
  Terminal() = default;
  termios before_ = {};
  Painter painter_;
};

}  // namespace brink::top
