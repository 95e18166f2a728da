#include "filter/parser.h"

#include <absl/strings/cord.h>
#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "filter/branch_flags.h"
#include "filter/names.h"
#include "filter/values.h"

namespace brink::filter {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxNodes = 4096;
constexpr size_t kMaxSetItems = 4096;
constexpr char kColumnPayload[] = "brink/filter/column";

Status ErrorAt(size_t column, std::string_view message) {
  Status status = InvalidArgument(absl::StrFormat("column %d: %s", column, std::string(message)));
  status.SetPayload(kColumnPayload, absl::Cord(std::to_string(column)));
  return status;
}

// What a predicate is about: a field, perhaps of either side, perhaps given by the command.
struct Subject {
  FieldName name;
  ExternalField external;
  std::string word;
  size_t column = 0;
  bool is_external() const { return name.field == Field::kExternal; }
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const ParseOptions& options) : tokens_(std::move(tokens)), options_(options) {}

  StatusOr<Expr> Run() {
    if (Peek().type == Token::Type::kEnd) return ErrorAt(1, "empty expression; example: kind == ret");
    ASSIGN_OR_RETURN(Expr expr, ParseOr(0));
    const Token& rest = Peek();
    if (rest.type != Token::Type::kEnd) {
      std::string hint = IsPunct(")") ? "no bracket is open here" : "expected 'and', 'or' or the end";
      return ErrorAt(rest.column, "unexpected '" + EscapeForTerminal(rest.text) + "': " + hint);
    }
    return expr;
  }

 private:
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token Take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  bool IsPunct(std::string_view text, size_t ahead = 0) const { return Peek(ahead).type == Token::Type::kPunct && Peek(ahead).text == text; }
  bool IsWord(std::string_view text, size_t ahead = 0) const { return Peek(ahead).type == Token::Type::kWord && Peek(ahead).text == text; }
  bool TakePunct(std::string_view text) {
    if (!IsPunct(text)) return false;
    Take();
    return true;
  }
  bool TakeWord(std::string_view text) {
    if (!IsWord(text)) return false;
    Take();
    return true;
  }
  std::string Shown(const Token& token) const {
    return token.type == Token::Type::kEnd ? "the end of the expression" : "'" + EscapeForTerminal(token.text) + "'";
  }

  StatusOr<Expr> ParseOr(int depth) {
    ASSIGN_OR_RETURN(Expr first, ParseAnd(depth));
    std::vector<Expr> list = {first};
    while (IsWord("or") || IsPunct("||")) {
      Take();
      ASSIGN_OR_RETURN(Expr next, ParseAnd(depth));
      list.push_back(next);
    }
    return Or(std::move(list));
  }

  StatusOr<Expr> ParseAnd(int depth) {
    ASSIGN_OR_RETURN(Expr first, ParseUnary(depth));
    std::vector<Expr> list = {first};
    while (IsWord("and") || IsPunct("&&")) {
      Take();
      ASSIGN_OR_RETURN(Expr next, ParseUnary(depth));
      list.push_back(next);
    }
    return And(std::move(list));
  }

  StatusOr<Expr> ParseUnary(int depth) {
    if (depth > kMaxDepth) return ErrorAt(Peek().column, "nested more than 64 deep");
    if (++nodes_ > kMaxNodes) return ErrorAt(Peek().column, "more than 4,096 predicates");
    if (IsWord("not") || IsPunct("!")) {
      Take();
      ASSIGN_OR_RETURN(Expr inner, ParseUnary(depth + 1));
      return Not(inner);
    }
    if (IsPunct("(")) {
      size_t opened = Take().column;
      ASSIGN_OR_RETURN(Expr inner, ParseOr(depth + 1));
      if (!TakePunct(")")) return ErrorAt(Peek().column, absl::StrFormat("expected ')' for the '(' of column %d, got %s", opened, Shown(Peek())));
      return inner;
    }
    return ParsePredicate();
  }

  StatusOr<Expr> ParsePredicate() {
    Token word = Take();
    if (word.type != Token::Type::kWord) return ErrorAt(word.column, "expected a field such as kind, pid or from, got " + Shown(word));
    if (word.text == "true") return Constant(Truth::kTrue);
    if (word.text == "false") return Constant(Truth::kFalse);
    if (word.text == "exclude" || word.text == "include") return ParseKindList(word.text == "exclude");
    if (word.text == "crossing" || word.text == "within") return ParseCrossing(word);
    Subject subject;
    RETURN_IF_ERROR(Resolve(word, &subject));
    ASSIGN_OR_RETURN(Expr expr, ParseTail(subject));
    return expr;
  }

  // BRBE's include and exclude: `exclude ret`, `include {call, ind_call}`.
  StatusOr<Expr> ParseKindList(bool exclude) {
    uint64_t mask = 0;
    const bool braces = TakePunct("{");
    do {
      ASSIGN_OR_RETURN(uint64_t bits, TakeEnum(ValueType::kKind));
      mask |= bits;
    } while (TakePunct(","));
    if (braces && !TakePunct("}")) return ErrorAt(Peek().column, "expected ',' or '}', got " + Shown(Peek()));
    Expr expr = EnumTest(Field::kKind, mask);
    return exclude ? Not(expr) : expr;
  }

  // crossing|within priv|function|object, or `within NAME`: both ends in that function.
  StatusOr<Expr> ParseCrossing(const Token& word) {
    Token what = Take();
    const bool crossing = word.text == "crossing";
    Subject subject{.word = word.text, .column = word.column};
    if (what.text == "priv" || what.text == "privilege") {
      subject.name.field = Field::kCrossPriv;
    } else if (what.text == "function" || what.text == "symbol") {
      subject.name.field = Field::kCrossFunction;
    } else if (what.text == "object" || what.text == "dso") {
      subject.name.field = Field::kCrossObject;
    } else if (!crossing && (what.type == Token::Type::kQuoted || what.type == Token::Type::kWord)) {
      return And({TextTest(Field::kFromSymbol, {{what.text, false}}), TextTest(Field::kToSymbol, {{what.text, false}})});
    } else {
      return ErrorAt(what.column, "expected priv, function or object after '" + word.text + "', got " + Shown(what));
    }
    if (IsWord("is") || IsWord("in")) return ParseTail(subject);
    return ValuesTest(subject.name.field, RangeSet::Of(crossing ? kYes : kNo));
  }

  Status Resolve(const Token& word, Subject* subject) {
    subject->word = word.text;
    subject->column = word.column;
    if (auto name = FindField(word.text)) {
      subject->name = *name;
      return OkStatus();
    }
    std::string_view text = word.text;
    const bool external = text == "ret" || text.starts_with("args.") || text.starts_with("ctx.");
    if (external && options_.external) {
      auto found = options_.external(text);
      if (!found.ok()) return ErrorAt(word.column, Message(found.status()));
      subject->name.field = Field::kExternal;
      subject->external = *found;
      return OkStatus();
    }
    if (external && !(text == "ret")) return ErrorAt(word.column, "'" + EscapeForTerminal(text) + "' is known at a probe only: brink snap --if");
    std::string message = "unknown field '" + EscapeForTerminal(text) + "'";
    std::string hint = HintFor(text);
    auto nearest = NearestNames(text, FieldNames(), 2);
    if (!hint.empty()) {
      message += "; " + hint;
      if (text == "ret") message += " (the return value `ret` is known to brink snap --if only)";
    } else if (!nearest.empty()) {
      message += "; did you mean '" + nearest[0] + "'" + (nearest.size() > 1 ? " or '" + nearest[1] + "'" : "") + "?";
    } else {
      message += "; `brink filter check --fields` lists them";
    }
    return ErrorAt(word.column, message);
  }

  ValueType TypeOf(const Subject& subject) const { return subject.is_external() ? ValueType::kSigned : Info(subject.name.field).type; }
  bool IsSigned(const Subject& s) const { return s.is_external() && s.external.is_signed; }
  bool IsEnum(const Subject& s) const {
    ValueType type = TypeOf(s);
    return type == ValueType::kKind || type == ValueType::kPriv || type == ValueType::kSpec || type == ValueType::kBool;
  }

  StatusOr<Expr> ParseTail(const Subject& subject) {
    if (TakeWord("is")) return ParseIs(subject);
    if (IsWord("not") && IsWord("in", 1)) {
      Take();
      Take();
      ASSIGN_OR_RETURN(Expr set, ParseSet(subject, false));
      return Not(set);
    }
    if (TakeWord("in")) return ParseSet(subject, false);
    if (IsPunct("&")) return ParseBits(subject);
    for (std::string_view op : {"==", "=", "!=", "<=", ">=", "<", ">", "~", "=~", "!~"}) {
      if (!IsPunct(op)) continue;
      Take();
      return ParseCompare(subject, op);
    }
    if (TypeOf(subject) == ValueType::kBool) return Finish(subject, EnumTest(subject.name.field, 1u << (subject.name.inverted ? kNo : kYes)));
    return ErrorAt(Peek().column, absl::StrFormat("expected ==, !=, <, <=, >, >=, ~, in or is after '%s', got %s",
                                                  EscapeForTerminal(subject.word), Shown(Peek())));
  }

  StatusOr<Expr> ParseIs(const Subject& subject) {
    const bool negated = TakeWord("not");
    if (!TakeWord("unknown")) {
      return ErrorAt(Peek().column, "expected 'unknown' after 'is', got " + Shown(Peek()) + "; to compare write ==");
    }
    auto node = std::make_shared<Node>(*IsUnknown(subject.name.field));
    Expr expr = Finish(subject, node);
    return negated ? Not(expr) : expr;
  }

  // Fills in the slot of an external field and doubles a test that is about either side.
  Expr Finish(const Subject& subject, const Expr& expr) const {
    if (subject.is_external()) {
      auto node = std::make_shared<Node>(*expr);
      node->slot = subject.external.slot;
      node->is_signed = subject.external.is_signed;
      node->name = subject.word;
      return node;
    }
    if (!subject.name.either_side) return expr;
    auto other = std::make_shared<Node>(*expr);
    other->field = expr->field == Field::kFromSymbol ? Field::kToSymbol : Field::kToObject;
    return Or({expr, other});
  }

  Expr TextTest(Field field, std::vector<Pattern> patterns) const {
    auto node = std::make_shared<Node>();
    node->type = Node::Type::kText;
    node->field = field;
    node->patterns = std::move(patterns);
    return node;
  }

  // Bit 0 of `mask` is "unknown": it selects what is not known beside what the other bits select.
  Expr EnumTest(Field field, uint64_t mask) const {
    Expr values = ValuesTest(field, RangeSet::OfMask(mask & ~uint64_t{1}));
    if (!(mask & 1)) return values;
    return mask == 1 ? IsUnknown(field) : Or({values, IsUnknown(field)});
  }

  StatusOr<uint64_t> TakeEnum(ValueType type) {
    Token token = Take();
    if (auto mask = ValueMask(type, token.text); mask && token.type != Token::Type::kEnd) return *mask;
    const char* what = type == ValueType::kKind ? "a kind" : type == ValueType::kPriv ? "a privilege" : type == ValueType::kSpec ? "an outcome" : "true or false";
    std::string message = absl::StrFormat("%s is not %s", Shown(token), what);
    auto nearest = NearestNames(token.text, ValueNames(type), 2);
    if (!nearest.empty() && token.type == Token::Type::kWord) {
      message += "; did you mean " + nearest[0] + (nearest.size() > 1 ? " or " + nearest[1] : "") + "?";
    } else {
      message += " (one of: ";
      for (const std::string& name : ValueNames(type)) message += (message.back() == ' ' ? "" : " ") + name;
      message += ")";
    }
    return ErrorAt(token.column, message);
  }

  StatusOr<uint64_t> TakeNumber(const Subject& subject) {
    const bool minus = TakePunct("-");
    Token token = Take();
    if (token.type == Token::Type::kEnd || token.type == Token::Type::kPunct) return ErrorAt(token.column, "expected a value, got " + Shown(token));
    auto value = ParseValue(subject.name.field, IsSigned(subject), token.text, minus);
    if (!value.ok()) return ErrorAt(token.column, Message(value.status()));
    return *value;
  }

  StatusOr<Expr> ParseBits(const Subject& subject) {
    if (TypeOf(subject) == ValueType::kText || IsEnum(subject)) return ErrorAt(Peek().column, "'&' needs a number on its left");
    Take();
    auto node = std::make_shared<Node>();
    node->type = Node::Type::kBits;
    node->field = subject.name.field;
    auto take = [&]() -> StatusOr<uint64_t> {
      Token token = Take();
      auto value = ParseUint(token.text);
      if (token.type != Token::Type::kWord || !value.ok()) return ErrorAt(token.column, "expected a number such as 0x40, got " + Shown(token));
      return *value;
    };
    ASSIGN_OR_RETURN(node->mask, take());
    bool not_equal = false;
    if (IsPunct("==") || IsPunct("!=")) {
      not_equal = Take().text == "!=";
      ASSIGN_OR_RETURN(node->equals, take());
    } else {
      not_equal = true;  // `flags & 0x40`: not zero
    }
    node->negated = not_equal;
    return Finish(subject, node);
  }

  StatusOr<Expr> ParseCompare(const Subject& subject, std::string_view op) {
    if (TypeOf(subject) == ValueType::kText || (subject.name.field == Field::kCgroup && !LooksNumeric(Peek()))) return ParseTextCompare(subject, op);
    if (op == "~" || op == "=~" || op == "!~") return ErrorAt(tokens_[at_ - 1].column, "'~' compares text; '" + EscapeForTerminal(subject.word) + "' is not text");
    if (IsEnum(subject)) {
      if (op != "==" && op != "=" && op != "!=") return ErrorAt(tokens_[at_ - 1].column, "'" + EscapeForTerminal(subject.word) + "' has no order; use == or in");
      ASSIGN_OR_RETURN(uint64_t mask, TakeEnum(TypeOf(subject)));
      if (subject.name.inverted) mask = (mask & 1) | (mask & 2) << 1 | (mask & 4) >> 1;
      Expr expr = EnumTest(subject.name.field, mask);
      return op == "!=" ? Not(expr) : expr;
    }
    ASSIGN_OR_RETURN(uint64_t value, TakeNumber(subject));
    RangeSet set;
    if (op == "==" || op == "=") set = RangeSet::Of(value);
    if (op == "!=") set = RangeSet::Of(value).Complement();
    if (op == "<=") set = RangeSet::Between(0, value);
    if (op == ">=") set = RangeSet::Between(value, UINT64_MAX);
    if (op == "<" && value > 0) set = RangeSet::Between(0, value - 1);
    if (op == ">" && value < UINT64_MAX) set = RangeSet::Between(value + 1, UINT64_MAX);
    return Finish(subject, ValuesTest(subject.name.field, set));
  }

  bool LooksNumeric(const Token& token) const { return token.type == Token::Type::kWord && ParseUint(token.text).ok(); }

  StatusOr<Expr> ParseTextCompare(const Subject& subject, std::string_view op) {
    const bool glob = op == "~" || op == "=~" || op == "!~";
    if (op == "<" || op == ">" || op == "<=" || op == ">=") {
      return ErrorAt(tokens_[at_ - 1].column, "'" + EscapeForTerminal(subject.word) + "' is text: use ==, !=, ~ or in");
    }
    ASSIGN_OR_RETURN(Expr expr, ParseTexts(subject, glob));
    return op == "!=" || op == "!~" ? Not(expr) : expr;
  }

  StatusOr<Expr> ParseTexts(const Subject& subject, bool glob) {
    std::vector<Pattern> patterns;
    const bool braces = TakePunct("{");
    do {
      Token token = Take();
      if (token.type != Token::Type::kWord && token.type != Token::Type::kQuoted) return ErrorAt(token.column, "expected text, got " + Shown(token));
      patterns.push_back({token.text, glob});
      if (patterns.size() > kMaxSetItems) return ErrorAt(token.column, "more than 4,096 values in a set");
    } while (braces && TakePunct(","));
    if (braces && !TakePunct("}")) return ErrorAt(Peek().column, "expected ',' or '}', got " + Shown(Peek()));
    Field field = subject.name.field == Field::kCgroup ? Field::kCgroupPath : subject.name.field;
    return Finish(subject, TextTest(field, std::move(patterns)));
  }

  StatusOr<Expr> ParseSet(const Subject& subject, bool glob) {
    const bool number_next = LooksNumeric(IsPunct("{") ? Peek(1) : Peek());
    if (TypeOf(subject) == ValueType::kText || (subject.name.field == Field::kCgroup && !number_next)) return ParseTexts(subject, glob);
    const bool braces = TakePunct("{");
    if (braces && TakePunct("}")) return Finish(subject, ValuesTest(subject.name.field, RangeSet()));
    if (IsEnum(subject)) {
      uint64_t mask = 0;
      do {
        ASSIGN_OR_RETURN(uint64_t bits, TakeEnum(TypeOf(subject)));
        mask |= subject.name.inverted ? (bits & 1) | (bits & 2) << 1 | (bits & 4) >> 1 : bits;
      } while (braces && TakePunct(","));
      if (braces && !TakePunct("}")) return ErrorAt(Peek().column, "expected ',' or '}', got " + Shown(Peek()));
      return EnumTest(subject.name.field, mask);
    }
    RangeSet set;
    size_t items = 0;
    do {
      ASSIGN_OR_RETURN(Range range, TakeRange(subject));
      set.Add(range);
      if (++items > kMaxSetItems) return ErrorAt(Peek().column, "more than 4,096 values in a set");
      // A CPU list needs no braces: cpu in 0-3,7.
    } while ((braces || subject.name.field == Field::kCpu) && TakePunct(","));
    if (braces && !TakePunct("}")) return ErrorAt(Peek().column, "expected ',' or '}', got " + Shown(Peek()));
    return Finish(subject, ValuesTest(subject.name.field, set));
  }

  // V, V..V, V.., ..V, V-V, V+SIZE: both ends belong to the range.
  StatusOr<Range> TakeRange(const Subject& subject) {
    Range range{0, UINT64_MAX};
    size_t column = Peek().column;
    if (!IsPunct("..")) {
      ASSIGN_OR_RETURN(range.lo, TakeNumber(subject));
      range.hi = range.lo;
    }
    if (TakePunct("+")) {
      Token token = Take();
      auto size = ParseUint(token.text);
      if (!size.ok()) size = ParseSize(token.text);
      if (!size.ok() || *size == 0) return ErrorAt(token.column, "expected a size such as 0x200 or 4K, got " + Shown(token));
      range.hi = range.lo + std::min(*size - 1, UINT64_MAX - range.lo);
    } else if (IsPunct("..") || (IsPunct("-") && !IsSigned(subject))) {
      Take();
      range.hi = UINT64_MAX;
      const bool value_next = IsPunct("-") || (Peek().type == Token::Type::kWord && !IsWord("and") && !IsWord("or"));
      if (value_next) {
        ASSIGN_OR_RETURN(range.hi, TakeNumber(subject));
      }
    }
    if (range.lo > range.hi) return ErrorAt(column, "the range ends before it begins");
    return range;
  }

  std::vector<Token> tokens_;
  const ParseOptions& options_;
  size_t at_ = 0;
  int nodes_ = 0;
};

}  // namespace

StatusOr<Expr> Parse(std::string_view text, const ParseOptions& options) {
  std::string_view trimmed = Trim(text);
  if (trimmed.starts_with("-j")) {
    std::string_view list = Trim(trimmed.substr(trimmed.starts_with("-j=") ? 3 : 2));
    ASSIGN_OR_RETURN(uint64_t bits, ParseBranchFlags(list));
    return ExprOfFlags(bits);
  }
  std::vector<Token> tokens;
  SyntaxError error;
  if (!Tokenize(text, &tokens, &error)) return ErrorAt(error.column, error.message);
  return Parser(std::move(tokens), options).Run();
}

size_t ErrorColumn(const Status& status) {
  auto payload = status.GetPayload(kColumnPayload);
  if (!payload) return 0;
  auto column = ParseUint(std::string(*payload));
  return column.ok() ? *column : 0;
}

std::string CaretLines(std::string_view text, size_t column) {
  constexpr size_t kWidth = 76;
  size_t begin = column > kWidth / 2 && text.size() > kWidth ? column - kWidth / 2 : 0;
  std::string line;
  for (char c : text.substr(begin, kWidth)) line += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return line + "\n" + std::string(column > begin ? column - begin - 1 : 0, ' ') + "^";
}

}  // namespace brink::filter
