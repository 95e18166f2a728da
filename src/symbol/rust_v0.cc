#include "symbol/rust_v0.h"

#include <cstdint>
#include <vector>

#include "symbol/demangle.h"

namespace brink::symbol {
namespace {

constexpr int kMaxNesting = 200;
// Back references can repeat all that stands before them; every parsed item costs one step.
constexpr int kMaxSteps = 20000;

std::string_view BasicType(char c) {
  switch (c) {
    case 'a': return "i8"; case 'b': return "bool"; case 'c': return "char"; case 'd': return "f64"; case 'e': return "str";
    case 'f': return "f32"; case 'h': return "u8"; case 'i': return "isize"; case 'j': return "usize"; case 'l': return "i32";
    case 'm': return "u32"; case 'n': return "i128"; case 'o': return "u128"; case 'p': return "_"; case 's': return "i16";
    case 't': return "u16"; case 'u': return "()"; case 'v': return "..."; case 'x': return "i64"; case 'y': return "u64";
    case 'z': return "!"; default: return {};
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<std::string> Run() {
    Path(/*in_value=*/true);
    if (!ok_) return std::nullopt;
    // An instantiating crate may follow; it is read for its grammar and not printed.
    if (at_ < text_.size()) {
      silent_ = true;
      Path(false);
    }
    if (!ok_ || at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool Enter() {
    if (++nesting_ > kMaxNesting || ++steps_ > kMaxSteps) ok_ = false;
    return ok_;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char Next() {
    if (at_ < text_.size()) return text_[at_++];
    ok_ = false;
    return '\0';
  }
  bool Eat(char c) {
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void Print(std::string_view text) {
    if (silent_ || !ok_) return;
    if (out_.size() + text.size() > kMaxDemangled) ok_ = false;
    else out_ += text;
  }

  uint64_t Base62() {
    if (Eat('_')) return 0;
    uint64_t value = 0;
    while (ok_) {
      char c = Next();
      if (c == '_') return value + 1;
      unsigned digit = c >= '0' && c <= '9' ? static_cast<unsigned>(c - '0') : c >= 'a' && c <= 'z' ? static_cast<unsigned>(c - 'a') + 10 : c >= 'A' && c <= 'Z' ? static_cast<unsigned>(c - 'A') + 36 : 99;
      if (digit == 99 || value > (UINT64_MAX - digit) / 62) ok_ = false;
      value = value * 62 + digit;
    }
    return 0;
  }
  uint64_t OptionalBase62(char tag) { return Eat(tag) ? Base62() + 1 : 0; }

  struct Identifier {
    std::string_view text;
    bool punycode = false;
    uint64_t disambiguator = 0;
  };
  Identifier ReadIdentifier() {
    Identifier id;
    id.disambiguator = OptionalBase62('s');
    id.punycode = Eat('u');
    size_t length = 0;
    if (Peek() < '0' || Peek() > '9') ok_ = false;
    if (Eat('0')) length = 0;
    else {
      while (Peek() >= '0' && Peek() <= '9' && length < 100000) length = length * 10 + static_cast<size_t>(Next() - '0');
    }
    Eat('_');
    if (length > text_.size() - at_) {
      ok_ = false;
      return id;
    }
    id.text = text_.substr(at_, length);
    at_ += length;
    return id;
  }
  void PrintIdentifier(const Identifier& id) {
    if (id.punycode) Print("punycode{");
    Print(id.text);
    if (id.punycode) Print("}");
  }

  template <typename F>
  void BackReference(F again) {
    size_t tag_at = at_ - 1;
    uint64_t target = Base62();
    if (!ok_ || target >= tag_at) {
      ok_ = false;
      return;
    }
    if (silent_) return;
    size_t resume = at_;
    at_ = static_cast<size_t>(target);
    again();
    at_ = resume;
  }

  void Path(bool in_value) {
    if (!Enter()) return;
    char tag = Next();
    switch (tag) {
      case 'C': PrintIdentifier(ReadIdentifier()); break;
      case 'M': ImplPath(); Print("<"); Type(); Print(">"); break;
      case 'X': ImplPath(); TraitAs(); break;
      case 'Y': TraitAs(); break;
      case 'N': NestedPath(in_value); break;
      case 'I':
        Path(in_value);
        if (in_value) Print("::");
        Print("<");
        GenericArgs();
        Print(">");
        break;
      case 'B': BackReference([&] { Path(in_value); }); break;
      default: ok_ = false;
    }
    --nesting_;
  }

  void TraitAs() {
    Print("<");
    Type();
    Print(" as ");
    Path(false);
    Print(">");
  }

  void ImplPath() {
    OptionalBase62('s');
    bool was = silent_;
    silent_ = true;
    Path(false);
    silent_ = was;
  }

  void NestedPath(bool in_value) {
    char ns = Next();
    Path(in_value);
    Identifier id = ReadIdentifier();
    if (ns >= 'A' && ns <= 'Z') {
      Print("::{");
      Print(ns == 'C' ? "closure" : ns == 'S' ? "shim" : std::string_view(&ns, 1));
      if (!id.text.empty()) {
        Print(":");
        PrintIdentifier(id);
      }
      Print("#");
      Print(std::to_string(id.disambiguator));
      Print("}");
    } else if (ns >= 'a' && ns <= 'z') {
      if (id.text.empty()) return;
      Print("::");
      PrintIdentifier(id);
    } else {
      ok_ = false;
    }
  }

  void GenericArgs() {
    for (bool first = true; ok_ && !Eat('E'); first = false) {
      if (!first) Print(", ");
      if (Eat('L')) Lifetime(Base62());
      else if (Eat('K')) Const();
      else Type();
    }
  }

  void Lifetime(uint64_t index) {
    if (index == 0) return Print("'_");
    if (index > bound_lifetimes_) {
      ok_ = false;
      return;
    }
    uint64_t depth = bound_lifetimes_ - index;
    Print("'");
    Print(depth < 26 ? std::string(1, static_cast<char>('a' + depth)) : "_" + std::to_string(depth));
  }

  // "for<'a, 'b> " around function and dyn types; `body` sees the new lifetimes.
  template <typename F>
  void Binder(F body) {
    uint64_t count = OptionalBase62('G');
    if (count > 100) ok_ = false;
    if (count > 0 && ok_) {
      Print("for<");
      for (uint64_t i = 0; i < count; ++i) {
        if (i > 0) Print(", ");
        ++bound_lifetimes_;
        Lifetime(1);
      }
      Print("> ");
    }
    body();
    bound_lifetimes_ -= std::min(bound_lifetimes_, count);
  }

  void Type() {
    if (!Enter()) return;
    char tag = Next();
    if (auto basic = BasicType(tag); !basic.empty()) {
      Print(basic);
      --nesting_;
      return;
    }
    switch (tag) {
      case 'A': Print("["), Type(), Print("; "), Const(), Print("]"); break;
      case 'S': Print("["), Type(), Print("]"); break;
      case 'T': Tuple(); break;
      case 'R': case 'Q':
        Print("&");
        if (Eat('L')) {
          if (uint64_t index = Base62()) Lifetime(index), Print(" ");
        }
        if (tag == 'Q') Print("mut ");
        Type();
        break;
      case 'P': Print("*const "), Type(); break;
      case 'O': Print("*mut "), Type(); break;
      case 'F': Binder([&] { Function(); }); break;
      case 'D': DynTrait(); break;
      case 'B': BackReference([&] { Type(); }); break;
      default: --at_, Path(false);
    }
    --nesting_;
  }

  void Tuple() {
    Print("(");
    int count = 0;
    for (; ok_ && !Eat('E'); ++count) {
      if (count > 0) Print(", ");
      Type();
    }
    Print(count == 1 ? ",)" : ")");
  }

  void Function() {
    if (Eat('U')) Print("unsafe ");
    if (Eat('K')) {
      Print("extern \"");
      if (Eat('C')) {
        Print("C");
      } else {
        std::string abi(ReadIdentifier().text);
        for (char& c : abi) c = c == '_' ? '-' : c;
        Print(abi);
      }
      Print("\" ");
    }
    Print("fn(");
    for (bool first = true; ok_ && !Eat('E'); first = false) {
      if (!first) Print(", ");
      Type();
    }
    Print(")");
    if (Eat('u')) return;
    Print(" -> ");
    Type();
  }

  void DynTrait() {
    Print("dyn ");
    Binder([&] {
      for (bool first = true; ok_ && !Eat('E'); first = false) {
        if (!first) Print(" + ");
        bool open = GenericPathOpen();
        while (ok_ && Eat('p')) {
          Print(open ? ", " : "<");
          open = true;
          PrintIdentifier(ReadIdentifier());
          Print(" = ");
          Type();
        }
        if (open) Print(">");
      }
    });
    if (!Eat('L')) {
      ok_ = false;
      return;
    }
    if (uint64_t index = Base62()) Print(" + "), Lifetime(index);
  }

  // A path whose generic arguments stay open, for associated types to be added.
  bool GenericPathOpen() {
    if (!Enter()) return false;
    bool open = false;
    if (Eat('B')) {
      BackReference([&] { open = GenericPathOpen(); });
    } else if (Eat('I')) {
      Path(false);
      Print("<");
      GenericArgs();
      open = true;
    } else {
      Path(false);
    }
    --nesting_;
    return open;
  }

  void Const() {
    if (!Enter()) return;
    char type = Next();
    if (type == 'B') {
      BackReference([&] { Const(); });
    } else if (type == 'p') {
      Print("_");
    } else if (BasicType(type).empty()) {
      ok_ = false;
    } else {
      bool negative = Eat('n');
      std::string hex;
      for (char c = Next(); ok_ && c != '_'; c = Next()) hex += c;
      PrintConst(type, negative, hex);
    }
    --nesting_;
  }

  void PrintConst(char type, bool negative, const std::string& hex) {
    uint64_t value = 0;
    for (char c : hex.substr(0, 16)) {
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) ok_ = false;
      value = value * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (type == 'b') return Print(value ? "true" : "false");
    if (type == 'c' && value >= 0x20 && value < 0x7f) return Print("'" + std::string(1, static_cast<char>(value)) + "'");
    if (negative) Print("-");
    Print(hex.size() > 16 ? "0x" + hex : std::to_string(value));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  bool ok_ = true;
  bool silent_ = false;
  int nesting_ = 0;
  int steps_ = 0;
  uint64_t bound_lifetimes_ = 0;
};

}  // namespace

std::optional<std::string> DemangleRustV0(std::string_view name) {
  if (!name.starts_with("_R") || name.size() < 3 || name.size() > kMaxMangled) return std::nullopt;
  // A decimal number behind _R would be a later version of the scheme.
  if (name[2] >= '0' && name[2] <= '9') return std::nullopt;
  return Parser(name.substr(2)).Run();
}

}  // namespace brink::symbol
