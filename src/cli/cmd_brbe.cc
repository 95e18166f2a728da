// brink brbe: Arm's Branch Record Buffer Extension, decoded, explained, programmed, modelled.
#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "brbe/check.h"
#include "brbe/diagnose.h"
#include "brbe/dump.h"
#include "brbe/linux.h"
#include "brbe/program.h"
#include "brbe/registers.h"
#include "brbe/stream.h"
#include "cli/commands.h"
#include "cli/interleave.h"
#include "filter/parser.h"

namespace brink::cli {
namespace {

using Json = nlohmann::ordered_json;
using namespace brbe;

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

Json CyclesJson(const Record& record) {
  Cycles cycles = CycleCount(record);
  if (cycles.state == Cycles::State::kKnown) return cycles.value;
  return nullptr;
}

Json RecordJson(const Record& r, size_t index, const RecordRules& rules) {
  constexpr const char* kValid[] = {"invalid", "target_only", "source_only", "complete"};
  const bool source = r.valid == Valid::kComplete || r.valid == Valid::kSourceOnly;
  const bool target = r.valid == Valid::kComplete || r.valid == Valid::kTargetOnly;
  Json json = {{"index", index}, {"valid", kValid[static_cast<int>(r.valid)]}};
  if (r.valid == Valid::kInvalid) return json;
  std::string type(TypeName(r.type));
  json["type"] = type.empty() ? Json(nullptr) : Json(type);
  json["type_code"] = r.type;
  json["kind"] = KindName(KindOfType(r.type));
  json["from"] = source ? Json(Hex(r.source)) : Json(nullptr);
  json["to"] = target ? Json(Hex(r.target)) : Json(nullptr);
  json["el"] = target ? Json(r.el) : Json(nullptr);
  json["mispredicted"] = source && !IsException(r.type) ? Json(r.mpred) : Json(nullptr);
  json["cycles"] = CyclesJson(r);
  json["cycles_overflowed"] = CycleCount(r).state == Cycles::State::kOverflow;
  json["in_transaction"] = r.transaction;
  json["last_failed"] = r.last_failed;
  json["problems"] = RecordProblems(r, rules);
  return json;
}

class BrbeCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(std::vector<std::string> words, TakeLaterOptions(spec_, parsed));
    if (words.empty()) return InvalidArgument("say what to do: decode, encode, check, program, model or diagnose");
    const std::string verb = words[0];
    words.erase(words.begin());
    if (verb == "decode") return RunDecode(words);
    if (verb == "encode") return RunEncode(words);
    if (verb == "check") return RunCheck(words);
    if (verb == "program") return RunProgram(words);
    if (verb == "model") return RunModel(words);
    if (verb == "diagnose") return RunDiagnose(words);
    auto nearest = NearestNames(verb, {"decode", "encode", "check", "program", "model", "diagnose"}, 1);
    return InvalidArgument("'" + EscapeForTerminal(verb) + "' is none of decode, encode, check, program, model, diagnose" + (nearest.empty() ? "" : "; did you mean " + nearest[0] + "?"));
  }

 private:
  StatusOr<DumpFormat> InputFormat() const {
    if (input_format_.empty()) return DumpFormat::kAuto;
    if (input_format_ == "text") return DumpFormat::kText;
    if (input_format_ == "json") return DumpFormat::kJson;
    if (input_format_ == "triples" || input_format_ == "binary") return DumpFormat::kTriples;
    if (input_format_ == "planes") return DumpFormat::kPlanes;
    return InvalidArgument("--input-format is text, json, triples or planes");
  }

  // decode REG=VALUE ... | FILE | -
  StatusOr<int> RunDecode(const std::vector<std::string>& words) {
    if (words.empty()) return InvalidArgument("decode what? a dump file, - for standard input, or REGISTER=VALUE");
    if (words[0].find('=') == std::string::npos) return DecodeDump(words[0]);
    bool problems = false;
    for (const std::string& word : words) {
      size_t equals = word.find('=');
      const RegisterSpec* spec = FindRegister(word.substr(0, equals));
      if (!spec || equals == std::string::npos) return UnknownRegister(word.substr(0, equals));
      ASSIGN_OR_RETURN(uint64_t value, ParseUint(word.substr(equals + 1)));
      problems |= PrintRegister(DecodeRegister(*spec, value));
    }
    return problems && strict_ ? kConditionMet : kDone;
  }

  Status UnknownRegister(const std::string& name) const {
    auto nearest = NearestNames(name, RegisterNames(), 2);
    return InvalidArgument("unknown register '" + EscapeForTerminal(name) + "'" + (nearest.empty() ? "" : "; did you mean " + nearest[0] + "?"));
  }

  bool PrintRegister(const Decoded& decoded) {
    if (json_) {
      Json fields = Json::object();
      for (const FieldValue& f : decoded.fields) fields[f.spec->name] = f.value > UINT32_MAX ? Json(Hex(f.value)) : Json(f.value);
      Json json = {{"schema", "brink.brbe.register.v1"}, {"register", decoded.spec->name}, {"value", Hex(decoded.raw)}, {"fields", fields}, {"reserved", Hex(decoded.reserved)}, {"problems", decoded.problems}};
      std::printf("%s\n", json.dump().c_str());
      return !decoded.problems.empty();
    }
    std::printf("%s = 0x%llX%s%s\n", decoded.spec->name, static_cast<unsigned long long>(decoded.raw), *decoded.spec->encoding ? "   " : "", decoded.spec->encoding);
    for (const FieldValue& f : decoded.fields) {
      std::string bits = f.spec->hi == f.spec->lo ? std::to_string(f.spec->lo) : absl::StrFormat("%d:%d", f.spec->hi, f.spec->lo);
      std::string shown = f.value > 9 ? Hex(f.value) : std::to_string(f.value);
      std::printf("  %-6s %-11s %-6s %-14s %s\n", bits.c_str(), f.spec->name, shown.c_str(), f.word.c_str(), f.spec->help);
    }
    for (const std::string& problem : decoded.problems) std::printf("  problem: %s\n", problem.c_str());
    return !decoded.problems.empty();
  }

  StatusOr<int> DecodeDump(const std::string& path) {
    ASSIGN_OR_RETURN(std::string content, ReadFile(path == "-" ? "/dev/stdin" : path, 1u << 20));
    ASSIGN_OR_RETURN(DumpFormat format, InputFormat());
    auto dump = ParseDump(content, format);
    if (!dump.ok()) return Annotate(dump.status(), path);
    RecordRules rules{.v1p1 = v1p1_, .tme = tme_};
    size_t problems = dump->problems.size();
    for (const Record& r : dump->records) problems += RecordProblems(r, rules).size();
    if (json_) {
      PrintDumpJson(*dump, rules);
    } else {
      PrintDumpText(*dump, rules);
    }
    return problems && strict_ ? kConditionMet : kDone;
  }

  void PrintDumpText(const Dump& dump, const RecordRules& rules) {
    for (const auto& [name, value] : dump.registers) PrintRegister(DecodeRegister(*FindRegister(name), value));
    for (size_t i = 0; i < dump.records.size(); ++i) {
      if (dump.records[i].valid == Valid::kInvalid && !all_) continue;
      std::printf("%s\n", RecordText(dump.records[i], i).c_str());
      for (const std::string& p : RecordProblems(dump.records[i], rules)) std::printf("   problem: %s\n", p.c_str());
    }
    if (perf_) {
      std::printf("as Linux gives it to perf:\n");
      for (const BranchEntry& e : ToPerf(dump.records, LinuxOptionsNow())) {
        std::printf("  0x%llx/0x%llx/%c/-/-/%u/%s\n", static_cast<unsigned long long>(e.from), static_cast<unsigned long long>(e.to),
                    e.prediction() == Prediction::kMispredicted ? 'M' : e.prediction() == Prediction::kPredicted ? 'P' : '-', e.cycles(), std::string(KindName(e.kind())).c_str());
      }
    }
    for (const std::string& p : dump.problems) std::printf("problem: %s\n", p.c_str());
  }

  void PrintDumpJson(const Dump& dump, const RecordRules& rules) {
    Json json = {{"schema", "brink.brbe.dump.v1"}};
    Json registers = Json::object();
    for (const auto& [name, value] : dump.registers) registers[name] = Hex(value);
    json["registers"] = registers;
    Json records = Json::array();
    for (size_t i = 0; i < dump.records.size(); ++i) {
      if (dump.records[i].valid != Valid::kInvalid || all_) records.push_back(RecordJson(dump.records[i], i, rules));
    }
    json["records"] = records;
    json["problems"] = dump.problems;
    std::printf("%s\n", json.dump().c_str());
  }

  LinuxOptions LinuxOptionsNow() const {
    LinuxOptions options;
    options.vhe = vhe_;
    options.quirks = quirks_;
    return options;
  }

  // encode REGISTER FIELD=VALUE ...
  StatusOr<int> RunEncode(const std::vector<std::string>& words) {
    if (words.empty()) return InvalidArgument("encode what? example: brink brbe encode BRBCR_EL1 EXCEPTION ERTN FZP TS=virtual MPRED CC E1BRE E0BRE");
    const RegisterSpec* spec = FindRegister(words[0]);
    if (!spec) return UnknownRegister(words[0]);
    std::vector<std::pair<std::string, std::string>> fields;
    for (size_t i = 1; i < words.size(); ++i) {
      for (std::string_view piece : Split(words[i], ',')) {
        size_t equals = piece.find('=');
        fields.emplace_back(std::string(piece.substr(0, equals)), equals == std::string_view::npos ? "" : std::string(piece.substr(equals + 1)));
      }
    }
    ASSIGN_OR_RETURN(uint64_t value, EncodeRegister(*spec, fields));
    if (json_) {
      std::printf("%s\n", Json({{"schema", "brink.brbe.register.v1"}, {"register", spec->name}, {"value", Hex(value)}}).dump().c_str());
    } else {
      std::printf("%s = 0x%llX\n", spec->name, static_cast<unsigned long long>(value));
    }
    return kDone;
  }

  StatusOr<Environment> EnvironmentOf(const std::vector<std::string>& words) const {
    Environment environment;
    if (v1p1_) environment.v1p1 = true;
    for (const std::string& word : words) {
      for (std::string_view piece : Split(word, ',')) RETURN_IF_ERROR(AddWord(environment, piece));
    }
    return environment;
  }

  StatusOr<int> RunCheck(const std::vector<std::string>& words) {
    if (words.empty()) return InvalidArgument("check what? example: brink brbe check brbcr_el1=0xC0013B brbcr_el2=0x18 brbfcr_el1=0x7E0000 hcr_el2.tge=0");
    ASSIGN_OR_RETURN(Environment environment, EnvironmentOf(words));
    std::vector<Finding> findings = CheckConfiguration(environment);
    std::fputs((json_ ? FindingsJson(findings) + "\n" : FindingsText(findings)).c_str(), stdout);
    return HasProblem(findings) ? kConditionMet : kDone;
  }

  StatusOr<int> RunProgram(const std::vector<std::string>& words) {
    if (words.empty()) return InvalidArgument("program what? example: brink brbe program 'exclude ret and priv == user' --as asm");
    std::vector<filter::Expr> parts;
    filter::PlanOptions options;
    for (const std::string& word : words) {
      ASSIGN_OR_RETURN(filter::Expr expr, filter::Parse(word));
      parts.push_back(expr);
    }
    auto plan = filter::MakePlan(filter::And(std::move(parts)), options);
    if (!plan.ok()) return FailedPrecondition(Message(plan.status()));
    Program program = MakeProgram(*plan, {.vhe = vhe_, .el2 = !no_el2_, .cycles = !no_cycles_, .flags = !no_flags_});
    if (as_ == "asm") {
      std::fputs(ProgramAsm(program).c_str(), stdout);
    } else if (as_ == "c") {
      std::fputs(ProgramC(program).c_str(), stdout);
    } else if (as_ == "explain") {
      std::fputs(ProgramExplain(program).c_str(), stdout);
    } else {
      return InvalidArgument("--as is asm, c or explain");
    }
    return kDone;
  }

  // model FILE: branch lines, oldest first, through the model.
  StatusOr<int> RunModel(const std::vector<std::string>& words);

  StatusOr<int> RunDiagnose(const std::vector<std::string>& words) {
    std::string text;
    std::vector<std::string> given;
    for (const std::string& word : words) {
      if (word.find('=') != std::string::npos && word != "from=0" && word != "to=0") {
        given.push_back(word);
      } else {
        text += (text.empty() ? "" : " ") + word;
      }
    }
    if (auto hint = ArticleSpelling(text)) {
      std::printf("%s\n", hint->c_str());
      return kDone;
    }
    const Symptom* symptom = text.empty() ? nullptr : FindSymptom(text);
    if (!symptom) {
      std::string all;
      for (const Symptom& s : AllSymptoms()) absl::StrAppendFormat(&all, "\n  %-18s %s", s.name, s.summary);
      return InvalidArgument((text.empty() ? "say the symptom" : "no symptom like '" + EscapeForTerminal(text) + "'") + "; known ones:" + all);
    }
    ASSIGN_OR_RETURN(Environment environment, EnvironmentOf(given));
    std::fputs(DiagnoseText(*symptom, environment).c_str(), stdout);
    return kDone;
  }

  std::string input_format_, as_ = "explain", model_ = "numrec=64";
  bool json_ = false, strict_ = false, all_ = false, perf_ = false, v1p1_ = false, tme_ = false, vhe_ = false, no_el2_ = false, quirks_ = true, no_cycles_ = false, no_flags_ = false;
  CommandSpec spec_{
      .name = "brbe",
      .summary = "decode, explain, program and model Arm's branch record buffer",
      .usage = "decode|encode|check|program|model|diagnose [options] WORDS...",
      .description =
          "decode FILE|-|REGISTER=VALUE...: records of a register dump (text, JSON, binary), newest first, or the fields of registers\n"
          "encode REGISTER FIELD[=VALUE]...: the value of a register\n"
          "check REGISTER=VALUE...: what the configuration records, what freezes it, who may touch it, what hangs on values not given\n"
          "program EXPR: the start-up sequence for a filter, in the right order of MSR and ISB\n"
          "model FILE|-: branches (KIND FROM TO [CYCLES] [M|P], oldest first) through a software model of the buffer\n"
          "diagnose SYMPTOM [REGISTER=VALUE...]: what to look at",
      .options = {{.letter = 0, .name = "json", .help = "print JSON", .set = StoreFlag(&json_)},
                  {.letter = 0, .name = "strict", .help = "exit status 4 where decode finds problems", .set = StoreFlag(&strict_)},
                  {.letter = 0, .name = "all", .help = "decode: invalid records too", .set = StoreFlag(&all_)},
                  {.letter = 0, .name = "perf", .help = "decode: also what Linux would hand to perf", .set = StoreFlag(&perf_)},
                  {.letter = 0, .name = "input-format", .value = Value::kRequired, .meta = "F", .help = "text, json, triples (binary INF SRC TGT) or planes", .set = StoreString(&input_format_)},
                  {.letter = 0, .name = "v1p1", .help = "the CPU has FEAT_BRBEv1p1", .set = StoreFlag(&v1p1_)},
                  {.letter = 0, .name = "tme", .help = "the CPU has FEAT_TME", .set = StoreFlag(&tme_)},
                  {.letter = 0, .name = "vhe", .help = "the kernel runs at EL2", .set = StoreFlag(&vhe_)},
                  {.letter = 0, .name = "no-el2", .help = "program: for a CPU without EL2", .set = StoreFlag(&no_el2_)},
                  {.letter = 0, .name = "no-cycles", .help = "program: without cycle counts", .set = StoreFlag(&no_cycles_)},
                  {.letter = 0, .name = "no-flags", .help = "program: without mispredict flags", .set = StoreFlag(&no_flags_)},
                  {.letter = 0, .name = "no-quirks", .help = "map the records that Linux's driver drops, too", .set = StoreFlag(&quirks_, false)},
                  {.letter = 0, .name = "as", .value = Value::kRequired, .meta = "FORM", .help = "program: asm, c or explain", .set = StoreString(&as_)},
                  {.letter = 0, .name = "brbe-model", .value = Value::kRequired, .meta = "WORDS", .help = "model: numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B,...", .set = StoreString(&model_)}},
      .examples = {{"brink brbe decode BRBCR_EL1=0xC0013B", "fields of a register"},
                   {"brink brbe decode dump.txt --perf", "records of a dump"},
                   {"brink brbe check brbcr_el1=0xC0013B brbfcr_el1=0x7E0000", "what it records"},
                   {"brink brbe program 'kind == ret and priv == user' --as asm", "start-up sequence"},
                   {"brink brbe diagnose cycles wrong brbcr_el1=0x13B brbcr_el2=0", "from a symptom to its cause"}}};
};

// "ret 0x401000 0x402000 12 M": one branch.
StatusOr<BranchEntry> ParseBranchLine(std::string_view line, size_t number) {
  std::vector<std::string_view> words;
  for (std::string_view word : Split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  auto fail = [&](std::string_view what) { return InvalidArgument(absl::StrFormat("line %d: %s; expected KIND FROM TO [CYCLES] [M|P]", number, std::string(what))); };
  if (words.size() < 3 || words.size() > 5) return fail("three to five words are needed");
  auto kind = ParseKind(words[0]);
  if (!kind) return fail("'" + EscapeForTerminal(words[0]) + "' is not a kind");
  auto from = ParseUint(words[1]), to = ParseUint(words[2]);
  if (!from.ok() || !to.ok()) return fail("bad address");
  BranchEntry entry{};
  entry.from = *from;
  entry.to = *to;
  entry.info = MakeInfo(*kind);
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i] == "M" || words[i] == "P") {
      entry.info |= words[i] == "M" ? 1 : 2;
    } else {
      auto cycles = ParseUint(words[i]);
      if (!cycles.ok() || *cycles > 0xffff) return fail("cycles are 0 to 65535");
      entry.info |= *cycles << 4;
    }
  }
  return entry;
}

StatusOr<int> BrbeCommand::RunModel(const std::vector<std::string>& words) {
  if (words.size() != 1) return InvalidArgument("model what? a file of branches, or - for standard input");
  ASSIGN_OR_RETURN(StreamOptions options, ParseStreamOptions(model_));
  options.quirks = options.quirks && quirks_;
  ASSIGN_OR_RETURN(StreamModel model, StreamModel::Create(options));
  ASSIGN_OR_RETURN(std::string content, ReadFile(words[0] == "-" ? "/dev/stdin" : words[0], 64u << 20));
  std::vector<BranchEntry> stack;
  size_t number = 0;
  for (std::string_view line : Split(content, '\n')) {
    ++number;
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    ASSIGN_OR_RETURN(BranchEntry entry, ParseBranchLine(line, number));
    stack.push_back(entry);
  }
  std::reverse(stack.begin(), stack.end());
  size_t index = 0;
  for (const BranchEntry& e : model.Apply(stack)) {
    const char* prediction = e.prediction() == Prediction::kMispredicted ? "mispredicted" : e.prediction() == Prediction::kPredicted ? "predicted" : "prediction unknown";
    std::string cycles = e.cycles() ? std::to_string(e.cycles()) + " cycles" : "cycles unknown";
    std::printf("%2zu %-8s %s -> %s %s, %s\n", index++, std::string(KindName(e.kind())).c_str(), e.from ? Hex(e.from).c_str() : "?", e.to ? Hex(e.to).c_str() : "?", prediction, cycles.c_str());
  }
  std::fprintf(stderr, "%s\n", Describe(model.counters()).c_str());
  return kDone;
}

}  // namespace

std::unique_ptr<Command> MakeBrbe() { return std::make_unique<BrbeCommand>(); }

}  // namespace brink::cli
