#include "top/keys.h"

#include <cstdlib>
#include <optional>
#include <utility>

namespace brink::top {
namespace {

constexpr size_t kLongestSequence = 16;

// Of "\033[" PARAMETERS FINAL or "\033O" FINAL.
std::optional<Key> KeyOfSequence(std::string_view parameters, char final) {
  switch (final) {
    case 'A': return Key{KeyCode::kUp};
    case 'B': return Key{KeyCode::kDown};
    case 'C': return Key{KeyCode::kRight};
    case 'D': return Key{KeyCode::kLeft};
    case 'H': return Key{KeyCode::kHome};
    case 'F': return Key{KeyCode::kEnd};
    case 'M': return Key{KeyCode::kEnter};  // of the keypad
    case 'Z': return Key{KeyCode::kBackTab};
    case '~': break;
    default: return std::nullopt;
  }
  switch (std::atoi(std::string(parameters).c_str())) {
    case 1: case 7: return Key{KeyCode::kHome};
    case 4: case 8: return Key{KeyCode::kEnd};
    case 5: return Key{KeyCode::kPageUp};
    case 6: return Key{KeyCode::kPageDown};
    default: return std::nullopt;
  }
}

// Bytes of the sequence at the start of `text`, 0: more are needed. Sets the key if it means one.
size_t TakeSequence(std::string_view text, std::optional<Key>* key) {
  if (text.size() < 2) return 0;
  if (text[1] == '\033') {  // Escape twice
    *key = Key{KeyCode::kEscape};
    return 1;
  }
  if (text[1] != '[' && text[1] != 'O') return 2;  // Alt and a key
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] < 0x40 || text[i] > 0x7e) continue;
    *key = KeyOfSequence(text.substr(2, i - 2), text[i]);
    return i + 1;
  }
  return text.size() > kLongestSequence ? text.size() : 0;
}

std::optional<Key> KeyOfByte(char byte) {
  switch (byte) {
    case 3: return Key{KeyCode::kInterrupt};
    case '\t': return Key{KeyCode::kTab};
    case '\r': case '\n': return Key{KeyCode::kEnter};
    case 8: case 127: return Key{KeyCode::kBackspace};
    default: break;
  }
  if (byte < 0x20 || byte > 0x7e) return std::nullopt;
  return Key{KeyCode::kChar, byte};
}

}  // namespace

std::vector<Key> KeyReader::Feed(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::vector<Key> keys;
  while (!rest.empty()) {
    std::optional<Key> key;
    size_t used = 1;
    if (rest[0] == '\033') used = TakeSequence(rest, &key);
    else key = KeyOfByte(rest[0]);
    if (used == 0) break;
    if (key) keys.push_back(*key);
    rest.remove_prefix(used);
  }
  pending_ = std::string(rest);
  return keys;
}

std::vector<Key> KeyReader::Idle() {
  if (pending_.empty()) return {};
  pending_.clear();
  return {Key{KeyCode::kEscape}};
}

}  // namespace brink::top
