#include "snap/values.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/tracefs.h"
#include "snap/syscalls.h"

namespace brink::snap {
namespace {

// Offsets in pt_regs (abi of user space).
#if defined(__x86_64__)
constexpr std::array<int, 6> kArgumentRegs = {112, 104, 96, 88, 72, 64};  // di si dx cx r8 r9
constexpr std::array<int, 6> kSyscallRegs = {112, 104, 96, 56, 72, 64};   // r10 instead of cx
constexpr int kResultReg = 80;
#else
constexpr std::array<int, 8> kArgumentRegs = {0, 8, 16, 24, 32, 40, 48, 56};
constexpr std::array<int, 6> kSyscallRegs = {0, 8, 16, 24, 32, 40};
constexpr int kResultReg = 0;
#endif

brink_snap_load FromContext(int offset, uint8_t size = 8, bool is_signed = false) {
  brink_snap_load load = {};
  load.base = BRINK_SNAP_CTX;
  load.steps = 1;
  load.size = size;
  load.is_signed = is_signed;
  load.offset[0] = offset;
  return load;
}

brink_snap_load FromSaved(int number) {
  brink_snap_load load = {};
  load.base = BRINK_SNAP_SAVED;
  load.steps = 1;
  load.size = 8;
  load.offset[0] = number;
  return load;
}

std::string Nearest(std::string_view name, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& near : NearestNames(name, names)) text += (text.empty() ? "; nearest: " : ", ") + near;
  return text;
}

struct RegisterName {
  const char* name;
  int offset;
};
#if defined(__x86_64__)
constexpr RegisterName kRegisters[] = {{"ax", 80}, {"bx", 40}, {"cx", 88}, {"dx", 96}, {"si", 104}, {"di", 112}, {"bp", 32}, {"sp", 152},
                                       {"r8", 72}, {"r9", 64}, {"r10", 56}, {"r11", 48}, {"r12", 24}, {"r13", 16}, {"r14", 8}, {"r15", 0}, {"ip", 128}};
#else
constexpr RegisterName kRegisters[] = {{"sp", 248}, {"pc", 256}};
#endif

// %rax, %eax, %ax, %al and x0, sp of AArch64 -> offset in pt_regs; -1 unknown.
int RegisterOffset(std::string_view text) {
  if (text.starts_with('%')) text.remove_prefix(1);
#if !defined(__x86_64__)
  if (text.starts_with('x') || text.starts_with('w')) {
    auto number = ParseUint(text.substr(1));
    return number.ok() && *number < 31 ? static_cast<int>(*number) * 8 : -1;
  }
#endif
  std::string name(text);
  if (name.size() > 1 && (name[0] == 'r' || name[0] == 'e') && !isdigit(static_cast<unsigned char>(name[1]))) name.erase(0, 1);
  if (name.size() > 2 && name[0] == 'r' && (name.back() == 'd' || name.back() == 'w' || name.back() == 'b')) name.pop_back();
  if (name == "al" || name == "bl" || name == "cl" || name == "dl") name[1] = 'x';
  if (name == "sil" || name == "dil" || name == "bpl" || name == "spl") name.pop_back();
  for (const RegisterName& reg : kRegisters) {
    if (name == reg.name) return reg.offset;
  }
  return -1;
}

}  // namespace

std::string ReplaceArrows(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool arrow = text[i] == '-' && i + 2 < text.size() && text[i + 1] == '>' && i > 0 &&
                 (isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_') &&
                 (isalpha(static_cast<unsigned char>(text[i + 2])) || text[i + 2] == '_');
    out += arrow ? '.' : text[i];
    i += arrow;
  }
  return out;
}

std::vector<FormatField> ParseFormat(std::string_view text) {
  std::vector<FormatField> fields;
  for (std::string_view line : Split(text, '\n')) {
    line = Trim(line);
    if (!line.starts_with("field:")) continue;
    FormatField field;
    std::string_view declaration;
    for (std::string_view part : Split(line, ';')) {
      part = Trim(part);
      if (part.starts_with("field:")) declaration = part.substr(6);
      auto number = [&](std::string_view key) { return ParseUint(part.substr(key.size())).value_or(0); };
      if (part.starts_with("offset:")) field.offset = static_cast<uint32_t>(number("offset:"));
      if (part.starts_with("size:")) field.size = static_cast<uint32_t>(number("size:"));
      if (part.starts_with("signed:")) field.is_signed = number("signed:") != 0;
    }
    field.is_array = declaration.ends_with(']') || declaration.find("__data_loc") != declaration.npos;
    field.is_char_pointer = declaration.starts_with("const char *") || declaration.starts_with("char *") || declaration.find("char * ") != declaration.npos;
    if (size_t bracket = declaration.find('['); bracket != declaration.npos && declaration.find("__data_loc") == declaration.npos) declaration = declaration.substr(0, bracket);
    field.name = std::string(declaration.substr(declaration.find_last_of(" *") + 1));
    if (!field.name.starts_with("common_")) fields.push_back(std::move(field));
  }
  return fields;
}

bool ParseUsdtArgument(std::string_view text, brink_snap_load* load) {
  size_t at = text.find('@');
  if (at == text.npos) return false;
  int size = std::atoi(std::string(text.substr(0, at)).c_str());
  if (std::abs(size) != 1 && std::abs(size) != 2 && std::abs(size) != 4 && std::abs(size) != 8) return false;
  std::string_view place = text.substr(at + 1);
  *load = FromContext(0, static_cast<uint8_t>(std::abs(size)), size < 0);
  char open = place.find('[') != place.npos ? '[' : '(';
  size_t bracket = place.find(open);
  if (bracket == place.npos) {
    int offset = RegisterOffset(place);
    if (offset < 0) return false;
    load->offset[0] = offset;
    return true;
  }
  // -8(%rbp); [sp, 8]: memory of the process.
  std::string_view inner = place.substr(bracket + 1, place.size() - bracket - 2);
  long shift = std::strtol(std::string(place.substr(0, bracket)).c_str(), nullptr, 0);
  if (size_t comma = inner.find(','); comma != inner.npos) {
    if (open == '(') return false;  // base and index
    shift = std::strtol(std::string(Trim(inner.substr(comma + 1))).c_str(), nullptr, 0);
    inner = inner.substr(0, comma);
  }
  int offset = RegisterOffset(inner);
  if (offset < 0 || place.substr(0, bracket).find_first_not_of("-+0123456789xabcdefABCDEF") != place.npos) return false;
  load->offset[0] = offset;
  load->offset[1] = static_cast<int32_t>(shift);
  load->steps = 2;
  load->user = 2;
  return true;
}

ValueTable::ValueTable(const Trigger& trigger, KernelTypes* types, std::string program, std::vector<Place> places)
    : trigger_(trigger), types_(types), program_(std::move(program)), places_(std::move(places)) {
  FindArguments();
}

void ValueTable::FindArguments() {
  switch (trigger_.kind) {
    case TriggerKind::kTracepoint: FindTracepointFields(); break;
    case TriggerKind::kSyscallEnter: case TriggerKind::kSyscallExit: FindSyscallArguments(); break;
    case TriggerKind::kUprobe: case TriggerKind::kUretprobe: FindUserArguments(); break;
    case TriggerKind::kUsdt: FindUsdtArguments(); break;
    case TriggerKind::kExec: case TriggerKind::kExit: case TriggerKind::kOom: case TriggerKind::kRawTracepoint: case TriggerKind::kSignal: case TriggerKind::kSignalSent:
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: case TriggerKind::kFentry: case TriggerKind::kFexit: {
      if (!types_ || trigger_.glob()) break;
      auto name = trigger_.kind == TriggerKind::kExec ? "sched_process_exec" : trigger_.kind == TriggerKind::kExit ? "sched_process_exit"
                  : trigger_.kind == TriggerKind::kOom ? "mark_victim" : trigger_.kind == TriggerKind::kSignal ? "signal_deliver"
                  : trigger_.kind == TriggerKind::kSignalSent ? "signal_generate" : trigger_.name;
      bool raw = trigger_.kind != TriggerKind::kKprobe && trigger_.kind != TriggerKind::kKretprobe && trigger_.kind != TriggerKind::kFentry && trigger_.kind != TriggerKind::kFexit;
      auto function = raw ? types_->RawTracepoint(name) : types_->Function(name);
      if (function.ok()) FindKernelArguments(*function);
      else arguments_status_ = function.status();
      break;
    }
    default: break;
  }
}

void ValueTable::FindKernelArguments(const KernelFunction& function) {
  const bool probe = trigger_.kind == TriggerKind::kKprobe, at_return = trigger_.kind == TriggerKind::kKretprobe;
  for (size_t i = 0; i < function.params.size(); ++i) {
    Argument argument;
    argument.name = function.params[i].name;
    argument.types = function.types;
    argument.type = function.params[i].type;
    if ((probe || at_return) && i >= kArgumentRegs.size()) break;
    argument.load = probe ? FromContext(kArgumentRegs[i]) : at_return ? FromSaved(static_cast<int>(i)) : FromContext(static_cast<int>(i) * 8);
    argument.is_string = KernelTypes::IsString(function.types, argument.type, &argument.user_string);
    KernelTypes::Describe(function.types, argument.type, &argument.load);
    arguments_.push_back(std::move(argument));
  }
  result_offset_ = static_cast<uint32_t>(function.params.size()) * 8;
  brink_snap_load result = {};
  if (function.result && KernelTypes::Describe(function.types, function.result, &result)) {
    result_size_ = result.size;
    // Errors travel in pointers too.
    result_signed_ = result.is_signed || result.size == 8;
  }
}

void ValueTable::FindTracepointFields() {
  auto text = ReadFile(TracefsRoot() + "/events/" + trigger_.category + "/" + trigger_.name + "/format");
  if (!text.ok()) {
    arguments_status_ = text.status();
    return;
  }
  for (const FormatField& field : ParseFormat(*text)) {
    if (field.is_array || (field.size != 1 && field.size != 2 && field.size != 4 && field.size != 8)) continue;
    Argument argument;
    argument.name = field.name;
    argument.load = FromContext(static_cast<int>(field.offset), static_cast<uint8_t>(field.size), field.is_signed);
    argument.is_string = field.is_char_pointer && field.size == 8;
    argument.user_string = trigger_.category == "syscalls";
    arguments_.push_back(std::move(argument));
  }
}

void ValueTable::FindSyscallArguments() {
  std::vector<FormatField> fields;
  auto text = ReadFile(TracefsRoot() + "/events/syscalls/sys_enter_" + trigger_.name + "/format");
  if (text.ok()) {
    fields = ParseFormat(*text);
    std::erase_if(fields, [](const FormatField& field) { return field.name == "__syscall_nr"; });
  } else if (types_) {
    auto function = types_->Function("__do_sys_" + trigger_.name);
    for (const KernelParam& param : function.ok() ? function->params : std::vector<KernelParam>{}) {
      bool user = false;
      brink_snap_load value = {};
      bool string = KernelTypes::IsString(function->types, param.type, &user);
      KernelTypes::Describe(function->types, param.type, &value);
      fields.push_back({.name = param.name, .offset = 0, .size = value.size, .is_signed = value.is_signed != 0, .is_array = false, .is_char_pointer = string});
    }
  }
  for (size_t i = 0; i < kSyscallRegs.size(); ++i) {
    // At both ends the context's first argument points to the registers, which still hold the arguments at the exit.
    Argument argument;
    if (i < fields.size()) argument.name = fields[i].name;
    if (!fields.empty() && i >= fields.size()) break;
    argument.load = FromContext(0);
    argument.load.steps = 2;
    argument.load.offset[1] = kSyscallRegs[i];
    argument.is_string = i < fields.size() && fields[i].is_char_pointer;
    argument.user_string = true;
    arguments_.push_back(std::move(argument));
  }
}

void ValueTable::FindUserArguments() {
  const bool at_return = trigger_.kind == TriggerKind::kUretprobe;
  std::vector<UserParam> params;
  if (!trigger_.symbol.empty() && !trigger_.glob() && trigger_.offset == 0) {
    const uint64_t entry = places_.size() == 1 ? places_[0].vaddr : 0;
    params = FunctionParams(program_, trigger_.symbol, entry);
    if (auto result = at_return ? FunctionResult(program_, trigger_.symbol, entry) : std::nullopt) {
      result_size_ = result->size;
      result_signed_ = result->is_signed || result->size == 8;
    }
  }
  for (size_t i = 0; i < 6; ++i) {
    Argument argument;
    int reg = static_cast<int>(i);
    if (!params.empty()) {
      if (i >= params.size()) break;
      argument.name = params[i].name;
      argument.is_string = params[i].is_string;
      reg = params[i].reg;
      if (reg < 0) continue;
    }
    argument.load = at_return ? FromSaved(reg) : FromContext(kArgumentRegs[static_cast<size_t>(reg)]);
    if (!params.empty()) {
      argument.load.size = params[i].size;
      argument.load.is_signed = params[i].is_signed;
    }
    argument.user_string = true;
    arguments_.push_back(std::move(argument));
  }
}

void ValueTable::FindUsdtArguments() {
  if (places_.empty()) return;
  // A probe may stand in several places with its arguments elsewhere each time: one trigger serves the first form.
  for (std::string_view word : Split(places_[0].arguments, ' ')) {
    if (word.empty()) continue;
    Argument argument;
    if (!ParseUsdtArgument(word, &argument.load)) argument.load = {};
    arguments_.push_back(std::move(argument));
  }
}

StatusOr<ValueTable::Argument> ValueTable::FindArgument(std::string_view word) const {
  if (word.starts_with("arg") && word.size() > 3) word.remove_prefix(isdigit(static_cast<unsigned char>(word[3])) ? 3 : 0);
  auto number = ParseUint(word);
  if (number.ok() && *number < arguments_.size()) {
    if (arguments_[*number].load.base == BRINK_SNAP_NONE) return InvalidArgument("argument " + std::to_string(*number) + " is a constant or lies where brink cannot read it");
    return arguments_[*number];
  }
  std::vector<std::string> names;
  for (const Argument& argument : arguments_) {
    if (!argument.name.empty() && argument.name == word) return argument;
    if (!argument.name.empty()) names.push_back(argument.name);
  }
  if (arguments_.empty()) {
    if (!arguments_status_.ok()) return InvalidArgument(Message(arguments_status_));
    return InvalidArgument(std::string(TriggerKindName(trigger_.kind)) + " has no arguments" + (trigger_.glob() ? " that hold for all functions of a glob" : ""));
  }
  if (number.ok()) return InvalidArgument("there are " + std::to_string(arguments_.size()) + " arguments, from args.0 on");
  std::string near = Nearest(word, names);
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "; there are " : ", ") + EscapeForTerminal(name);
  return InvalidArgument("no argument '" + EscapeForTerminal(word) + "'" + (near.empty() ? all + "; by number: args.0, args.1 ..." : near));
}

Status ValueTable::LocateResult(Value* value) const {
  switch (trigger_.kind) {
    case TriggerKind::kKretprobe: case TriggerKind::kUretprobe: value->load = FromContext(kResultReg, result_size_, result_signed_); return OkStatus();
    case TriggerKind::kFexit: value->load = FromContext(static_cast<int>(result_offset_), result_size_, result_signed_); return OkStatus();
    case TriggerKind::kSyscallExit: value->load = FromContext(8, 8, true); return OkStatus();
    default: break;
  }
  return InvalidArgument("'ret' is known at a return only: kretprobe, fexit, uretprobe, syscall:NAME (exit)");
}

Status ValueTable::Locate(std::string_view name, Value* value) {
  if (name == "ret") return LocateResult(value);
  if (name == "ctx.duration") {
    if (!trigger_.returns()) return InvalidArgument("'ctx.duration' is known at a return only");
    value->load.base = BRINK_SNAP_DURATION;
    value->load.steps = 1;
    value->load.size = 8;
    return OkStatus();
  }
  std::vector<std::string> words;
  for (std::string_view part : Split(name, '.')) words.emplace_back(part);
  if (words.size() < 2) return InvalidArgument("'" + EscapeForTerminal(name) + "' is no value of a probe");
  ASSIGN_OR_RETURN(Argument argument, FindArgument(words[1]));
  value->load = argument.load;
  if (words.size() > 2) {
    if (!argument.types || !types_) return InvalidArgument("the type of '" + words[1] + "' is not known here: no members");
    value->load.bits = value->load.shift = 0;
    std::vector<std::string> members(words.begin() + 2, words.end());
    RETURN_IF_ERROR(types_->Follow(argument.types, argument.type, members, &value->load));
  }
  return OkStatus();
}

int ValueTable::SlotOf(std::string_view name) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

StatusOr<filter::ExternalField> ValueTable::Resolve(std::string_view name) {
  // args.flags and ctx.flags are one thing.
  std::string canonical(name);
  if (canonical.starts_with("ctx.") && canonical != "ctx.duration") canonical = "args." + canonical.substr(4);
  int slot = SlotOf(canonical);
  if (slot < 0) {
    if (values_.size() >= BRINK_FILTER_MAX_EXT) return InvalidArgument("more than " + std::to_string(BRINK_FILTER_MAX_EXT) + " different values of a probe");
    Value value;
    value.name = canonical;
    RETURN_IF_ERROR(Locate(canonical, &value));
    needs_entry_ = needs_entry_ || value.load.base == BRINK_SNAP_SAVED || value.load.base == BRINK_SNAP_DURATION;
    slot = static_cast<int>(values_.size());
    values_.push_back(std::move(value));
  }
  const brink_snap_load& load = values_[static_cast<size_t>(slot)].load;
  return filter::ExternalField{static_cast<uint8_t>(slot), load.is_signed != 0};
}

void ValueTable::AddShown() {
  constexpr size_t kMostShown = 8;
  if (trigger_.returns() && values_.size() < BRINK_FILTER_MAX_EXT) (void)Resolve("ret");
  for (size_t i = 0; i < arguments_.size() && i < kMostShown && values_.size() < BRINK_FILTER_MAX_EXT; ++i) {
    const Argument& argument = arguments_[i];
    if (argument.load.base == BRINK_SNAP_NONE) continue;
    // What functions were entered with costs a second probe: only when a condition wants it.
    if (argument.load.base == BRINK_SNAP_SAVED && !needs_entry_) continue;
    if (argument.name.empty() && trigger_.kind != TriggerKind::kUsdt) continue;
    (void)Resolve("args." + (argument.name.empty() ? std::to_string(i) : argument.name));
    if (!argument.is_string || strings_.size() >= BRINK_SNAP_STRINGS) continue;
    StringValue string = {argument.name, argument.load};
    if (string.load.base != BRINK_SNAP_SAVED && string.load.steps < BRINK_SNAP_LOAD_STEPS) string.load.offset[string.load.steps++] = 0;
    if (argument.user_string) string.load.user |= static_cast<uint8_t>(1u << (string.load.steps - 1));
    strings_.push_back(std::move(string));
  }
}

}  // namespace brink::snap
