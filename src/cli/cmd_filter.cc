// brink filter check|explain: what an expression means and where it is decided.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/fd.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/interleave.h"
#include "filter/branch_flags.h"
#include "filter/names.h"
#include "filter/parser.h"
#include "filter/plan.h"

namespace brink::cli {
namespace {

class FilterCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return AllOutputs(spec_, parsed); }
  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(std::vector<std::string> words, TakeLaterOptions(spec_, parsed));
    if (fields_) {
      PrintFields();
      return Done(kDone);
    }
    if (words.empty()) return InvalidArgument("say what to do: brink filter check EXPR, or brink filter explain EXPR");
    const std::string& verb = words[0];
    if (verb != "check" && verb != "explain") {
      return InvalidArgument("'" + EscapeForTerminal(verb) + "' is neither check nor explain; an expression goes behind: brink filter explain 'kind == ret'");
    }
    std::vector<filter::Expr> parts;
    for (size_t i = 1; i < words.size(); ++i) wheres_.push_back(words[i]);
    if (wheres_.empty() && branch_filter_.empty()) return InvalidArgument("no expression given; example: brink filter " + verb + " 'kind in {call, ret} and priv == user'");
    filter::PlanOptions options;
    for (const std::string& where : wheres_) {
      if (Trim(where).starts_with("-j")) {
        // perf's words go to the hardware as they are.
        auto bits = filter::ParseBranchFlags(Trim(Trim(where).substr(2)));
        if (!bits.ok()) return bits.status();
        options.branch_bits |= *bits;
        continue;
      }
      auto expr = filter::Parse(where);
      if (!expr.ok()) return Point(where, expr.status());
      parts.push_back(*expr);
    }
    if (!branch_filter_.empty()) {
      ASSIGN_OR_RETURN(uint64_t bits, filter::ParseBranchFlags(branch_filter_));
      options.branch_bits |= bits;
    }
    if (options.branch_bits) parts.push_back(filter::ExprOfFlags(options.branch_bits));
    auto plan = filter::MakePlan(filter::And(std::move(parts)), options);
    if (!plan.ok()) {
      if (json_) PutInvalid(std::nullopt, Message(plan.status()), 0);
      RETURN_IF_ERROR(Done(kFailed).status());
      return FailedPrecondition(Message(plan.status()));
    }
    Print(verb, *plan);
    return Done(kDone);
  }

 private:
  // The message first, then where it is in the text.
  StatusOr<int> Point(const std::string& where, const Status& status) {
    if (json_) PutInvalid(where, Message(status), filter::ErrorColumn(status));
    std::fprintf(stderr, "brink filter: %s\n", Message(status).c_str());
    if (size_t column = filter::ErrorColumn(status)) {
      std::string lines = filter::CaretLines(where, column);
      size_t cut = lines.find('\n');
      std::fprintf(stderr, "  %s\n  %s\n", lines.substr(0, cut).c_str(), lines.substr(cut + 1).c_str());
    }
    return Done(kUsage);
  }

  void Line(const nlohmann::ordered_json& json) { json_text_ += AsciiJson(json) + "\n"; }

  // For programs: what is wrong, and where. `where` is the text at fault, if one is.
  void PutInvalid(const std::optional<std::string>& where, const std::string& message, size_t column) {
    using Json = nlohmann::ordered_json;
    Line({{"schema", "brink.filter.check.v1"},
          {"valid", false},
          {"expression", where ? Json(*where) : Json(nullptr)},
          {"contiguous", nullptr},
          {"error", message},
          {"column", column ? Json(column) : Json(nullptr)}});
  }

  StatusOr<int> Done(int status) const {
    if (json_file_.empty()) {
      RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, json_text_.data(), json_text_.size()));
    } else {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(json_file_, O_WRONLY | O_CREAT | O_TRUNC));
      RETURN_IF_ERROR(WriteAll(fd.get(), json_text_.data(), json_text_.size()));
    }
    return status;
  }

  void Print(const std::string& verb, const filter::Plan& plan) {
    if (json_ && verb == "check") {
      Line({{"schema", "brink.filter.check.v1"}, {"valid", true}, {"expression", filter::ToString(plan.expr)}, {"contiguous", plan.contiguous}, {"error", nullptr}, {"column", nullptr}});
    } else if (json_) {
      json_text_ += filter::ExplainJson(plan) + "\n";
    } else if (verb == "check") {
      std::printf("%s\n", filter::ToString(plan.expr).c_str());
    } else {
      std::fputs(filter::ExplainText(plan).c_str(), stdout);
    }
  }

  void PrintFields() {
    if (json_) {
      auto fields = nlohmann::ordered_json::array();
      for (const filter::FieldInfo& info : filter::AllFields()) fields.push_back({{"name", info.name}, {"of", info.of_record ? "record" : "sample"}, {"help", info.help}});
      Line({{"schema", "brink.filter.fields.v1"}, {"fields", fields}, {"kinds", filter::ValueNames(filter::ValueType::kKind)}});
      return;
    }
    std::printf("%-20s %-8s %s\n", "field", "of", "meaning");
    for (const filter::FieldInfo& info : filter::AllFields()) {
      std::printf("%-20s %-8s %s\n", info.name, info.of_record ? "record" : "sample", info.help);
    }
    std::printf("%-20s %-8s %s\n", "symbol, object", "record", "either side of the branch");
    std::string kinds;
    for (const std::string& name : filter::ValueNames(filter::ValueType::kKind)) kinds += (kinds.empty() ? "" : " ") + name;
    std::printf("\nkinds: %s\n", kinds.c_str());
  }

  std::vector<std::string> wheres_;
  std::string branch_filter_;
  std::string json_file_, json_text_;
  bool json_ = false;
  bool fields_ = false;
  CommandSpec spec_{
      .name = "filter",
      .summary = "show what a filter means and where it is decided",
      .usage = "check|explain [options] EXPR...",
      .description =
          "check: says whether the expression is valid and can match, and prints it in its canonical form.\n"
          "explain: prints the plan: perf's branch_sample_type, the registers of Intel, AMD, Arm and Power branch hardware,\n"
          "what BPF and user space decide and why, and which analyses and CFI policies survive. Several expressions are\n"
          "ANDed. An unknown value makes a predicate unknown: such records are dropped and counted; `is unknown` selects them.",
      .options = {{.letter = 'j', .name = "branch-filter", .value = Value::kRequired, .meta = "LIST", .help = "perf's spelling: any,u,k,any_call,ind_call,...", .set = StoreString(&branch_filter_)},
                  {.letter = 0, .name = "where", .value = Value::kRequired, .meta = "EXPR", .help = "one more expression", .set = AppendString(&wheres_)},
                  {.letter = 0, .name = "fields", .help = "list the fields and kinds", .set = StoreFlag(&fields_)},
                  {.letter = 0, .name = "json", .value = Value::kOptional, .meta = "FILE", .help = "JSON (docs/schema/filter.json), on standard output or in FILE",
                   .writes = true, .set = [this](std::string_view file) {
                     json_ = true;
                     json_file_ = file;
                     return OkStatus();
                   }}},
      .examples = {{"brink filter check 'exclude ret and mispredicted'", "valid?"},
                   {"brink filter explain 'kind in any_call and priv == user'", "LBR_SELECT 0x0E5"},
                   {"brink filter explain '-j any,u,k'", "what perf's words become"}}};
};

}  // namespace

std::unique_ptr<Command> MakeFilter() { return std::make_unique<FilterCommand>(); }

}  // namespace brink::cli
