// brink brbe: Arm's Branch Record Buffer Extension, decoded, explained, programmed, modelled.
#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "brbe/check.h"
#include "brbe/diagnose.h"
#include "brbe/dump.h"
#include "brbe/json.h"
#include "brbe/linux.h"
#include "brbe/program.h"
#include "brbe/registers.h"
#include "brbe/stream.h"
#include "cli/commands.h"
#include "cli/interleave.h"
#include "filter/parser.h"

namespace brink::cli {
namespace {

using namespace brbe;

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

// BRBINF, BRBSRC and BRBTGT are thirty-two each: S2_1_C8_C<n & 15>_<(n & 16) >> 2 + part>.
std::string EncodingOf(const RegisterSpec& spec, const std::string& name) {
  constexpr const char* kParts[] = {"BRBINF_EL1", "BRBSRC_EL1", "BRBTGT_EL1"};
  for (unsigned part = 0; part < 3; ++part) {
    const size_t digits = name.find_first_of("0123456789");
    if (std::string_view(spec.name) != kParts[part] || digits != 6) continue;
    const unsigned n = static_cast<unsigned>(std::strtoul(name.c_str() + digits, nullptr, 10));
    return absl::StrFormat("S2_1_C8_C%d_%d", n & 15, (n & 16) / 4 + part);
  }
  return spec.encoding;
}

class BrbeCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  std::optional<std::vector<std::string>> Confined(const Parsed& parsed) const override { return AllOutputs(spec_, parsed); }
  StatusOr<int> Run(const Parsed& parsed) override {
    ASSIGN_OR_RETURN(std::vector<std::string> words, TakeLaterOptions(spec_, parsed));
    if (words.empty()) return InvalidArgument("say what to do: decode, encode, check, program, model or diagnose");
    const std::string verb = words[0];
    words.erase(words.begin());
    ASSIGN_OR_RETURN(int status, RunVerb(verb, words));
    RETURN_IF_ERROR(PutJson());
    return status;
  }

 private:
  StatusOr<int> RunVerb(const std::string& verb, const std::vector<std::string>& words) {
    if (verb == "decode") return RunDecode(words);
    if (verb == "encode") return RunEncode(words);
    if (verb == "check") return RunCheck(words);
    if (verb == "program") return RunProgram(words);
    if (verb == "model") return RunModel(words);
    if (verb == "diagnose") return RunDiagnose(words);
    auto nearest = NearestNames(verb, {"decode", "encode", "check", "program", "model", "diagnose"}, 1);
    return InvalidArgument("'" + EscapeForTerminal(verb) + "' is none of decode, encode, check, program, model, diagnose" + (nearest.empty() ? "" : "; did you mean " + nearest[0] + "?"));
  }

  void Line(const std::string& line) { json_text_ += line + "\n"; }
  Status PutJson() const {
    if (json_file_.empty()) return WriteAll(STDOUT_FILENO, json_text_.data(), json_text_.size());
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(json_file_, O_WRONLY | O_CREAT | O_TRUNC));
    return WriteAll(fd.get(), json_text_.data(), json_text_.size());
  }

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
      problems |= PrintRegister(NameOf(*spec, word.substr(0, equals)), DecodeRegister(*spec, value));
    }
    return problems && strict_ ? kConditionMet : kDone;
  }

  Status UnknownRegister(const std::string& name) const {
    auto nearest = NearestNames(name, RegisterNames(), 2);
    return InvalidArgument("unknown register '" + EscapeForTerminal(name) + "'" + (nearest.empty() ? "" : "; did you mean " + nearest[0] + "?"));
  }

  // BRBINF7_EL1 for a numbered register, else the table's name.
  static std::string NameOf(const RegisterSpec& spec, const std::string& word) {
    std::string upper;
    for (char c : word) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool numbered = upper.size() > 6 && std::isdigit(static_cast<unsigned char>(upper[6]));
    return !numbered ? spec.name : upper.ends_with("_EL1") ? upper : upper + "_EL1";
  }

  bool PrintRegister(const std::string& name, const Decoded& decoded) {
    if (json_) {
      Line(RegisterJson(name, decoded));
      return !decoded.problems.empty();
    }
    std::string encoding = EncodingOf(*decoded.spec, name);
    std::printf("%s = 0x%llX%s%s\n", name.c_str(), static_cast<unsigned long long>(decoded.raw), encoding.empty() ? "" : "   ", encoding.c_str());
    for (const FieldValue& f : decoded.fields) {
      std::string bits = f.spec->hi == f.spec->lo ? std::to_string(f.spec->lo) : absl::StrFormat("%d:%d", f.spec->hi, f.spec->lo);
      std::string shown = f.value > 9 ? Hex(f.value) : std::to_string(f.value);
      std::printf("  %-6s %-11s %-6s %-14s %s\n", bits.c_str(), f.spec->name, shown.c_str(), f.word.c_str(), f.spec->help);
    }
    if (std::string_view(decoded.spec->name) == "BRBINF_EL1") PrintMeaning(DecodeRecord(decoded.raw, 0, 0));
    for (const std::string& problem : decoded.problems) std::printf("  problem: %s\n", problem.c_str());
    return !decoded.problems.empty();
  }

  // What a BRBINF alone says.
  static void PrintMeaning(const Record& record) {
    const Cycles cycles = CycleCount(record);
    const char* words[] = {"", "not known (CCU)", "overflowed: 2^20 or more", "impossible"};
    std::string count = cycles.state == Cycles::State::kKnown ? absl::StrFormat("%d%s", cycles.value, cycles.step > 1 ? absl::StrFormat(" to %d", cycles.value + cycles.step - 1) : "") : words[static_cast<int>(cycles.state)];
    std::printf("  cycles: %s\n", record.valid == Valid::kInvalid ? "none, the record is invalid" : count.c_str());
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
      Line(DumpJson(*dump, rules, all_));
    } else {
      PrintDumpText(*dump, rules);
    }
    return problems && strict_ ? kConditionMet : kDone;
  }

  void PrintDumpText(const Dump& dump, const RecordRules& rules) {
    for (const auto& [name, value] : dump.registers) PrintRegister(name, DecodeRegister(*FindRegister(name), value));
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
    Decoded decoded = DecodeRegister(*spec, value);
    if (json_) {
      Line(RegisterJson(spec->name, decoded));
    } else {
      std::printf("%s = 0x%llX\n", spec->name, static_cast<unsigned long long>(value));
      for (const std::string& problem : decoded.problems) std::printf("  problem: %s\n", problem.c_str());
    }
    return strict_ && !decoded.problems.empty() ? kConditionMet : kDone;
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
    if (json_) {
      Line(FindingsJson(findings));
    } else {
      std::fputs(FindingsText(findings).c_str(), stdout);
    }
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
    if (json_) {
      Line(ProgramJson(program));
    } else if (as_ == "asm") {
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
    if (json_) {
      Line(DiagnoseJson(*symptom, environment));
    } else {
      std::fputs(DiagnoseText(*symptom, environment).c_str(), stdout);
    }
    return kDone;
  }

  std::string input_format_, as_ = "explain", model_ = "numrec=64";
  std::string json_file_, json_text_;
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
      .options = {{.letter = 0, .name = "json", .value = Value::kOptional, .meta = "FILE", .help = "JSON (docs/schema/brbe.json), on standard output or in FILE",
                   .writes = true, .set = [this](std::string_view file) {
                     json_ = true;
                     json_file_ = file;
                     return OkStatus();
                   }},
                  {.letter = 0, .name = "strict", .help = "exit status 4 where decode or encode finds problems", .set = StoreFlag(&strict_)},
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
  const std::vector<BranchEntry> records = model.Apply(stack);
  if (json_) {
    Line(ModelJson(records, model.counters()));
    return kDone;
  }
  for (const BranchEntry& e : records) {
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
