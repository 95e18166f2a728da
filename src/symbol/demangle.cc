#include "symbol/demangle.h"

#include <csetjmp>
#include <cstddef>

#include "symbol/rust_v0.h"

extern "C" int __gcclibcxx_demangle_callback(const char* mangled, void (*callback)(const char*, size_t, void*), void* opaque);

namespace brink::symbol {
namespace {

struct Sink {
  std::jmp_buf too_long;
  char* out;
  size_t size;
};

// Substitutions let a short name stand for an output of any length (each one may repeat all before it), so the
// output is cut off in the middle: the callback form allocates nothing, and a jump over its C frames leaves nothing behind.
void Append(const char* text, size_t size, void* opaque) {
  Sink* sink = static_cast<Sink*>(opaque);
  if (size > kMaxDemangled - sink->size) std::longjmp(sink->too_long, 1);
  for (size_t i = 0; i < size; ++i) sink->out[sink->size + i] = text[i];
  sink->size += size;
}

// Plain buffers only: no object with a destructor may live in the frame that is jumped to.
bool RunDemangler(const char* mangled, char* out, size_t* size) {
  Sink sink;
  sink.out = out;
  sink.size = 0;
  if (setjmp(sink.too_long) != 0) return false;
  bool ok = __gcclibcxx_demangle_callback(mangled, Append, &sink) == 0;
  *size = sink.size;
  return ok;
}

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// "::h0123456789abcdef" at the end of a legacy Rust name.
bool HasRustHash(std::string_view name) {
  if (name.size() < 19 || name.substr(name.size() - 19, 3) != "::h") return false;
  for (char c : name.substr(name.size() - 16)) {
    if (!IsHex(c)) return false;
  }
  return true;
}

void AppendUtf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// One "$...$" of the legacy scheme; "" where unknown.
std::string RustEscape(std::string_view code) {
  constexpr std::pair<std::string_view, std::string_view> kCodes[] = {{"SP", "@"}, {"BP", "*"}, {"RF", "&"}, {"LT", "<"},
                                                                      {"GT", ">"}, {"LP", "("}, {"RP", ")"}, {"C", ","}};
  for (auto [name, text] : kCodes) {
    if (code == name) return std::string(text);
  }
  if (code.size() < 2 || code.size() > 5 || code[0] != 'u') return "";
  uint32_t value = 0;
  for (char c : code.substr(1)) {
    if (!IsHex(c)) return "";
    value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  std::string out;
  if (value >= 0x20 && !(value >= 0xd800 && value < 0xe000)) AppendUtf8(out, value);
  return out;
}

std::string UnescapeRustLegacy(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool start = i == 0 || text.substr(i - std::min<size_t>(i, 2), 2) == "::";
    if (text[i] == '_' && start && i + 1 < text.size() && text[i + 1] == '$') continue;
    if (text[i] == '.' && i + 1 < text.size() && text[i + 1] == '.') {
      out += "::";
      ++i;
      continue;
    }
    size_t end = text[i] == '$' ? text.find('$', i + 1) : std::string_view::npos;
    std::string escaped = end == std::string_view::npos ? "" : RustEscape(text.substr(i + 1, end - i - 1));
    if (escaped.empty()) {
      out += text[i];
    } else {
      out += escaped;
      i = end;
    }
  }
  return out;
}

// Where a clone's suffix starts, or npos: the first dot behind a mangled name.
size_t SuffixAt(std::string_view name) {
  if (!name.starts_with("_Z") && !name.starts_with("_R")) return std::string_view::npos;
  // Legacy Rust names hold dots themselves: theirs end in E.
  size_t end = name.rfind("17h");
  size_t from = end != std::string_view::npos && end + 20 <= name.size() && name[end + 19] == 'E' ? end + 20 : 0;
  return name.find('.', from);
}

}  // namespace

std::optional<std::string> DemangleCxx(std::string_view name) {
  if (!name.starts_with("_Z") && !name.starts_with("__Z") && !name.starts_with("_GLOBAL_")) return std::nullopt;
  if (name.size() > kMaxMangled) return std::nullopt;
  std::string mangled(name);
  static thread_local std::string buffer(kMaxDemangled, '\0');
  size_t size = 0;
  if (!RunDemangler(mangled.c_str(), buffer.data(), &size) || size == 0) return std::nullopt;
  return buffer.substr(0, size);
}

std::optional<std::string> DemangleRust(std::string_view name) {
  if (name.size() > kMaxMangled) return std::nullopt;
  if (name.starts_with("_R")) return DemangleRustV0(name);
  auto plain = DemangleCxx(name);
  if (!plain || !HasRustHash(*plain)) return std::nullopt;
  return UnescapeRustLegacy(std::string_view(*plain).substr(0, plain->size() - 19));
}

std::string Demangle(std::string_view name) {
  size_t dot = SuffixAt(name);
  std::string_view base = name.substr(0, dot);
  auto plain = DemangleRust(base);
  if (!plain) plain = DemangleCxx(base);
  if (!plain) return std::string(name);
  if (dot != std::string_view::npos) plain->append(" [").append(name.substr(dot)).append("]");
  return *std::move(plain);
}

std::string ShortenName(std::string_view name) {
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && name.substr(i).starts_with("operator")) {
      // operator<, operator(), operator-> ...: the brackets are the name.
      size_t end = i + 8;
      if (name.substr(end).starts_with("()")) end += 2;
      while (end < name.size() && std::string_view("<>=-+*/%^&|~![]").find(name[end]) != std::string_view::npos) ++end;
      out += name.substr(i, end - i);
      i = end - 1;
      continue;
    }
    if (depth == 0 && name.substr(i).starts_with("(anonymous namespace)")) {
      out += "(anonymous namespace)";
      i += 20;
      continue;
    }
    char c = name[i];
    if (c == '<' && !(i == 0)) ++depth;
    else if (c == '(' && depth == 0 && i > 0) break;
    if (depth == 0) out += c;
    if (c == '>' && depth > 0 && name[i - 1] != '-') --depth;
  }
  return out.empty() ? std::string(name) : out;
}

}  // namespace brink::symbol
