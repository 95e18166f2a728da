#include "script/json_text.h"

#include "base/strings.h"

namespace brink::script {
namespace {

// Length of the valid UTF-8 sequence at `at`, 0 when there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and beyond U+10FFFF.
  const unsigned char second = byte(at + 1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
  return length;
}

uint32_t Decode(std::string_view sequence) {
  uint32_t code = static_cast<unsigned char>(sequence[0]) & (0x7f >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (static_cast<unsigned char>(sequence[i]) & 0x3f);
  return code;
}

// Controls above ASCII and marks of direction: JSON would take them, a terminal would obey them. All are below U+10000.
bool Obeyed(std::string_view sequence) { return EscapeForTerminal(sequence) != sequence; }

void PutEscape(uint32_t code, TextBuffer* out) {
  out->Text("\\u");
  for (uint32_t byte : {code >> 8 & 0xff, code & 0xff}) out->Text({&kHexPairs[2 * byte], 2});
}

}  // namespace

void PutJsonString(std::string_view text, TextBuffer* out) {
  out->Char('"');
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t length = SequenceLength(text, at);
    if (length == 0) {
      out->Text("\\ufffd");
      ++at;
      continue;
    }
    if (c == '"' || c == '\\') {
      out->Char('\\');
      out->Char(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->Text("\\u00");
      out->Text({&kHexPairs[2 * static_cast<unsigned char>(c)], 2});
    } else if (const uint32_t code = length == 1 ? static_cast<unsigned char>(c) : Decode(text.substr(at, length)); code >= 0x7f && Obeyed(text.substr(at, length))) {
      PutEscape(code, out);
    } else {
      out->Text(text.substr(at, length));
    }
    at += length;
  }
  out->Char('"');
}

}  // namespace brink::script
