#include "export/binary.h"

#include <algorithm>
#include <unistd.h>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "elf/symbols.h"

namespace brink::exporter {
namespace {

using symbol::Object;
using symbol::ObjectId;
using symbol::ObjectKind;

// Recorders pad short ids with zeros.
bool SameId(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return !b.empty() && a.starts_with(b) && a.find_first_not_of('\0', b.size()) == std::string_view::npos;
}

std::vector<uint64_t> BranchesByObject(const report::Program& program) {
  std::vector<uint64_t> counts(program.objects.size());
  for (const report::BranchStat& branch : program.aggregate.branches) {
    counts[branch.from.object] += branch.count;
    if (branch.to.object != branch.from.object) counts[branch.to.object] += branch.count;
  }
  return counts;
}

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string Recorded(const report::Program& program) {
  std::vector<uint64_t> counts = BranchesByObject(program);
  std::vector<ObjectId> order;
  for (ObjectId id = 1; id < counts.size(); ++id) {
    ObjectKind kind = program.objects[id].kind;
    if (counts[id] && (kind == ObjectKind::kFile || kind == ObjectKind::kKernel)) order.push_back(id);
  }
  std::sort(order.begin(), order.end(), [&](ObjectId a, ObjectId b) { return counts[a] > counts[b]; });
  std::string text;
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < order.size() && i < kShown; ++i) {
    const Object& object = program.objects[order[i]];
    text += (i ? ", " : "") + EscapeForTerminal(object.path) + (object.build_id.empty() ? "" : " (build id " + HexEncode(object.build_id) + ")");
  }
  return text.empty() ? "no file has branches in it" : "recorded: " + text;
}

// The object that `wanted` names; kNoObject when it names none.
ObjectId FindObject(const report::Program& program, const std::string& wanted) {
  std::vector<uint64_t> counts = BranchesByObject(program);
  constexpr size_t kLeastDigits = 6;
  const bool hex = wanted.size() >= kLeastDigits && wanted.find_first_not_of("0123456789abcdef") == std::string::npos;
  ObjectId best = symbol::kNoObject;
  for (ObjectId id = 1; id < counts.size(); ++id) {
    const Object& object = program.objects[id];
    if (object.kind != ObjectKind::kFile && object.kind != ObjectKind::kKernel) continue;
    if (wanted.empty() && object.kind == ObjectKind::kKernel) continue;
    const bool fits = wanted.empty() || object.path == wanted || BaseName(object.path) == wanted || object.ShortName() == wanted ||
                      (hex && HexEncode(object.build_id).starts_with(wanted));
    if (fits && (best == symbol::kNoObject || counts[id] > counts[best])) best = id;
  }
  return best;
}

}  // namespace

Status Binary::MatchKernel(const Object& object) {
  const std::string reference = object.reference.empty() ? "_text" : object.reference;
  ASSIGN_OR_RETURN(elf::SymbolTable symbols, elf::ReadSymbols(*file_, elf::SymbolSource::kSymtab));
  for (const elf::Symbol& symbol : symbols.symbols) {
    if (symbol.defined() && symbols.NameOf(symbol) == reference) {
      kernel_reference_ = symbol.value;
      kernel_ = true;
      return OkStatus();
    }
  }
  return NotFound(path_ + " has no symbol " + reference + ": an uncompressed vmlinux with its symbols is needed");
}

Status Binary::Match(const report::Program& program) {
  held_.assign(program.objects.size(), 0);
  const std::string name = BaseName(path_);
  const bool may_be_kernel = file_->FindSection("__ksymtab") != nullptr || name.starts_with("vmlinux");
  const Object* other = nullptr;
  bool found = false;
  for (ObjectId id = 1; id < program.objects.size(); ++id) {
    const Object& object = program.objects[id];
    const bool kernel = object.kind == ObjectKind::kKernel;
    if (object.kind != ObjectKind::kFile && !kernel) continue;
    const bool same_name = kernel ? may_be_kernel : BaseName(object.path) == name;
    const bool both_have_ids = !object.build_id.empty() && !build_id_.empty();
    if (both_have_ids ? !SameId(object.build_id, build_id_) : !same_name) {
      if (same_name) other = &object;
      continue;
    }
    if (kernel) RETURN_IF_ERROR(MatchKernel(object));
    held_[id] = 1;
    found = true;
    verified_ = both_have_ids;
  }
  if (!found && other) {
    return FailedPrecondition(EscapeForTerminal(path_) + " has build id " + HexEncode(build_id_) + ", recorded was " + EscapeForTerminal(other->path) +
                              " with " + HexEncode(other->build_id) + ": give the file that ran");
  }
  if (!found) return NotFound(EscapeForTerminal(path_) + " is not in the recording; " + Recorded(program));
  for (const report::BranchStat& branch : program.aggregate.branches) {
    if (Holds(branch.from.object) || Holds(branch.to.object)) branches_ += branch.count;
  }
  return OkStatus();
}

StatusOr<Binary> Binary::Choose(report::Program& program, const std::string& wanted) {
  Binary binary;
  if (!wanted.empty() && access(wanted.c_str(), R_OK) == 0) {
    ASSIGN_OR_RETURN(elf::File file, elf::File::Open(wanted));
    binary.file_ = std::make_shared<elf::File>(std::move(file));
    binary.path_ = wanted;
  } else {
    const ObjectId id = FindObject(program, wanted);
    if (id == symbol::kNoObject) {
      return NotFound((wanted.empty() ? "no file to export" : "'" + EscapeForTerminal(wanted) + "' is neither a file here nor a recorded one") + "; " + Recorded(program));
    }
    const symbol::LocatedFile& located = program.symbolizer->FileOf(id);
    if (!located.file) {
      return NotFound(EscapeForTerminal(program.objects[id].path) + " is not at hand (" +
                      (located.detail.empty() ? std::string(symbol::UnresolvedName(located.reason)) : EscapeForTerminal(located.detail)) + "); give it by --binary FILE");
    }
    binary.file_ = located.file;
    binary.path_ = located.path.empty() ? program.objects[id].path : located.path;
  }
  binary.build_id_ = binary.file_->BuildId().value_or("");
  RETURN_IF_ERROR(binary.Match(program));
  binary.functions_ = symbol::FunctionTable::FromElf(*binary.file_, nullptr);
  return binary;
}

std::optional<uint64_t> Binary::Vaddr(const Location& location) const {
  if (!Holds(location.object)) return std::nullopt;
  if (kernel_) return location.offset + kernel_reference_;
  return file_->OffsetToVaddr(location.offset);
}

}  // namespace brink::exporter
