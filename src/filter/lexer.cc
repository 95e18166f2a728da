#include "filter/lexer.h"

#include <array>
#include <cctype>

#include "base/strings.h"

namespace brink::filter {
namespace {

bool IsAlnum(char c) { return std::isalnum(static_cast<unsigned char>(c)); }
bool IsWordChar(char c) { return IsAlnum(c) || std::string_view("_:/@*?$%#").find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80; }

class Lexer {
 public:
  Lexer(std::string_view text, std::vector<Token>* tokens, SyntaxError* error) : text_(text), tokens_(tokens), error_(error) {}

  bool Run() {
    if (text_.size() > kMaxExpressionBytes) return Fail(kMaxExpressionBytes, "expression longer than 65,536 bytes");
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (std::isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (c == '"' || c == '\'') {
        if (!Quoted(c)) return false;
      } else if (IsWordChar(c)) {
        Word();
      } else if (!Punct()) {
        return false;
      }
    }
    tokens_->push_back({Token::Type::kEnd, "", text_.size() + 1});
    return true;
  }

 private:
  bool Fail(size_t at, std::string message) {
    *error_ = {at + 1, std::move(message)};
    return false;
  }

  bool Quoted(char quote) {
    size_t start = at_++;
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_++];
    }
    if (at_ >= text_.size()) return Fail(start, "text without its closing quote");
    ++at_;
    tokens_->push_back({Token::Type::kQuoted, std::move(value), start + 1});
    return true;
  }

  // A `.` belongs to the word unless it begins `..`; a `-` between letters does in words that do not begin with a digit.
  void Word() {
    size_t start = at_;
    const bool numeric = std::isdigit(static_cast<unsigned char>(text_[at_]));
    while (at_ < text_.size()) {
      char c = text_[at_];
      char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      bool dot = c == '.' && next != '.' && (at_ > start && text_[at_ - 1] != '.');
      bool dash = c == '-' && !numeric && at_ > start && (IsWordChar(next));
      if (!IsWordChar(c) && !dot && !dash) break;
      ++at_;
    }
    tokens_->push_back({Token::Type::kWord, std::string(text_.substr(start, at_ - start)), start + 1});
  }

  bool Punct() {
    static constexpr std::array<std::string_view, 24> kPuncts = {"==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "..", "(", ")", "{",
                                                                 "}",  ",",  "=",  "<",  ">",  "~",  "&",  "!",  "+",  "-", "[", "]"};
    for (std::string_view punct : kPuncts) {
      if (text_.substr(at_, punct.size()) != punct) continue;
      tokens_->push_back({Token::Type::kPunct, std::string(punct), at_ + 1});
      at_ += punct.size();
      return true;
    }
    return Fail(at_, "unexpected character '" + EscapeForTerminal(text_.substr(at_, 1)) + "'");
  }

  std::string_view text_;
  std::vector<Token>* tokens_;
  SyntaxError* error_;
  size_t at_ = 0;
};

}  // namespace

bool Tokenize(std::string_view text, std::vector<Token>* tokens, SyntaxError* error) { return Lexer(text, tokens, error).Run(); }

}  // namespace brink::filter
