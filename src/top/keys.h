// Bytes of a terminal as keys. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brink::top {

enum class KeyCode { kChar, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kTab, kBackTab, kBackspace, kInterrupt };

struct Key {
  KeyCode code = KeyCode::kChar;
  char character = 0;  // of kChar: printable ASCII
  friend bool operator==(const Key&, const Key&) = default;
};

class KeyReader {
 public:
  // Escape sequences may come in pieces. Sequences that mean nothing here, control characters and bytes beyond ASCII are
  // dropped.
  std::vector<Key> Feed(std::string_view bytes);
  // No byte came for a moment: what has begun like a sequence was the Escape key.
  std::vector<Key> Idle();
  bool pending() const { return !pending_.empty(); }

 private:
  std::string pending_;  // an unfinished sequence
};

}  // namespace brink::top
