#include "script/json_text.h"

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
    } else {
      out->Text(text.substr(at, length));
    }
    at += length;
  }
  out->Char('"');
}

}  // namespace brink::script
