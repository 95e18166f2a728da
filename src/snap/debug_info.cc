#include "snap/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/fd.h"
#include "base/strings.h"

namespace brink::snap {
namespace {

char* debuginfo_path = nullptr;  // libdwfl's default: beside the file, .debug, /usr/lib/debug, by build id
const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debuginfo_path,
};

// The debug information of one file, wherever it lies. Addresses are link-time ones.
class DebugFile {
 public:
  explicit DebugFile(const std::string& path) {
    dwfl_ = dwfl_begin(&kCallbacks);
    if (!dwfl_) return;
    Dwfl_Module* module = dwfl_report_offline(dwfl_, "", path.c_str(), -1);
    dwfl_report_end(dwfl_, nullptr, nullptr);
    if (module) dwarf_ = dwfl_module_getdwarf(module, &bias_);
  }
  ~DebugFile() {
    if (dwfl_) dwfl_end(dwfl_);
  }
  DebugFile(const DebugFile&) = delete;
  DebugFile& operator=(const DebugFile&) = delete;
  Dwarf* dwarf() const { return dwarf_; }

  // fn(unit) for each compile unit until it returns false.
  template <typename Fn>
  void ForEachUnit(Fn fn) const {
    if (!dwarf_) return;
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
      if (dwarf_tag(&die) == DW_TAG_compile_unit && !fn(&die)) return;
    }
  }

  // fn(function) for each function with this name; where there is none, for those whose code begins at `entry` (0: no such
  // wish): the name may be another of theirs.
  template <typename Fn>
  void ForEachFunction(std::string_view name, uint64_t entry, Fn fn) const {
    bool any = false;
    ForEachSubprogram([&](Dwarf_Die* die) {
      const char* own = dwarf_diename(die);
      // A declaration of another unit names no parameters.
      if (!own || name != own || dwarf_hasattr(die, DW_AT_declaration)) return true;
      any = true;
      return fn(die);
    });
    if (any || !entry) return;
    ForEachSubprogram([&](Dwarf_Die* die) {
      Dwarf_Addr begin;
      return dwarf_entrypc(die, &begin) != 0 || begin != entry || fn(die);
    });
  }

 private:
  template <typename Fn>
  void ForEachSubprogram(Fn fn) const {
    ForEachUnit([&](Dwarf_Die* unit) {
      Dwarf_Die child;
      if (dwarf_child(unit, &child) != 0) return true;
      do {
        if (dwarf_tag(&child) != DW_TAG_subprogram) continue;
        if (!fn(&child)) return false;
      } while (dwarf_siblingof(&child, &child) == 0);
      return true;
    });
  }

  Dwfl* dwfl_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  Dwarf_Addr bias_ = 0;
};

// Whether `path` of the line table is what the user calls `file`: equal, or its last components.
bool NamesSource(std::string_view path, std::string_view file) {
  return path == file || (path.size() > file.size() && path.ends_with(file) && path[path.size() - file.size() - 1] == '/');
}

// Type behind typedefs and qualifiers.
bool PeelType(Dwarf_Die* holder, Dwarf_Die* type) {
  Dwarf_Attribute attribute;
  Dwarf_Die raw;
  return dwarf_attr_integrate(holder, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, &raw) && dwarf_peel_type(&raw, type) == 0;
}

bool IsCharPointer(Dwarf_Die* pointer) {
  Dwarf_Die target;
  Dwarf_Word size;
  const char* name;
  return PeelType(pointer, &target) && dwarf_tag(&target) == DW_TAG_base_type && (name = dwarf_diename(&target)) != nullptr &&
         std::string_view(name) == "char" && dwarf_aggregate_size(&target, &size) == 0 && size == 1;
}

// Fills what a scalar or pointer type is; false for classes and floating point, which travel otherwise.
bool DescribeParam(Dwarf_Die* parameter, UserParam* param) {
  Dwarf_Die type;
  if (!PeelType(parameter, &type)) return false;
  Dwarf_Word size = 8;
  dwarf_aggregate_size(&type, &size);
  switch (dwarf_tag(&type)) {
    case DW_TAG_pointer_type: case DW_TAG_reference_type: case DW_TAG_rvalue_reference_type:
      param->is_string = IsCharPointer(&type);
      return true;
    case DW_TAG_enumeration_type:
      break;
    case DW_TAG_base_type: {
      Dwarf_Attribute attribute;
      Dwarf_Word encoding = 0;
      if (!dwarf_attr_integrate(&type, DW_AT_encoding, &attribute) || dwarf_formudata(&attribute, &encoding) != 0) return false;
      if (encoding == DW_ATE_float || encoding == DW_ATE_complex_float) return false;
      param->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
      break;
    }
    default:
      return false;
  }
  if (size != 1 && size != 2 && size != 4 && size != 8) return false;
  param->size = static_cast<uint8_t>(size);
  return true;
}

}  // namespace

StatusOr<std::vector<uint64_t>> AddressesOfLine(const std::string& path, const std::string& file, uint32_t line) {
  DebugFile debug(path);
  if (!debug.dwarf()) return NotFound("'" + EscapeForTerminal(file) + ":" + std::to_string(line) + "' needs debug information, and " + EscapeForTerminal(path) + " has none (compile with -g, or install its debug symbols)");
  std::set<std::string> sources;
  uint32_t best = UINT32_MAX;
  std::set<uint64_t> addresses;
  debug.ForEachUnit([&](Dwarf_Die* unit) {
    Dwarf_Lines* lines;
    size_t count;
    if (dwarf_getsrclines(unit, &lines, &count) != 0) return true;
    uint32_t previous = 0;
    for (size_t i = 0; i < count; ++i) {
      Dwarf_Line* row = dwarf_onesrcline(lines, i);
      const char* source = dwarf_linesrc(row, nullptr, nullptr);
      int number = 0;
      bool statement = false;
      Dwarf_Addr address = 0;
      if (!source || dwarf_lineno(row, &number) != 0 || dwarf_linebeginstatement(row, &statement) != 0 || dwarf_lineaddr(row, &address) != 0) continue;
      if (!NamesSource(source, file)) {
        sources.insert(std::string(source).substr(std::string_view(source).rfind('/') + 1));
        previous = 0;
        continue;
      }
      uint32_t at = static_cast<uint32_t>(number);
      // The first row of a run of rows with this line: where the statement begins.
      if (statement && at >= line && at <= best && at != previous) {
        if (at < best) addresses.clear();
        best = at;
        addresses.insert(address);
      }
      previous = at;
    }
    return true;
  });
  if (!addresses.empty()) return std::vector<uint64_t>(addresses.begin(), addresses.end());
  std::string near;
  for (const std::string& name : NearestNames(file, std::vector<std::string>(sources.begin(), sources.end()))) near += (near.empty() ? "; nearest: " : ", ") + EscapeForTerminal(name);
  return NotFound("no code of '" + EscapeForTerminal(file) + ":" + std::to_string(line) + "' (or a later line) in " + EscapeForTerminal(path) + near);
}

bool IsInlinedEverywhere(const std::string& path, std::string_view function) {
  DebugFile debug(path);
  bool inlined = false, own_code = false;
  debug.ForEachFunction(function, 0, [&](Dwarf_Die* die) {
    Dwarf_Addr address;
    own_code = own_code || dwarf_entrypc(die, &address) == 0;
    inlined = inlined || dwarf_func_inline(die) != 0;
    return true;
  });
  return inlined && !own_code;
}

std::optional<UserParam> FunctionResult(const std::string& path, const std::string& function, uint64_t entry) {
  DebugFile debug(path);
  std::optional<UserParam> result;
  debug.ForEachFunction(function, entry, [&](Dwarf_Die* die) {
    UserParam value;
    if (DescribeParam(die, &value)) result = value;
    return !result;
  });
  return result;
}

std::vector<UserParam> FunctionParams(const std::string& path, const std::string& function, uint64_t entry) {
  DebugFile debug(path);
  std::vector<UserParam> params;
  debug.ForEachFunction(function, entry, [&](Dwarf_Die* die) {
    Dwarf_Die child;
    if (dwarf_child(die, &child) != 0) return true;
    int reg = 0;
    bool plain = true;  // behind a class or float the registers are not ours to count
    do {
      if (dwarf_tag(&child) != DW_TAG_formal_parameter) continue;
      UserParam param;
      const char* name = dwarf_diename(&child);
      param.name = name ? name : "";
      plain = DescribeParam(&child, &param) && plain;
      if (plain && reg < 6) param.reg = reg++;
      params.push_back(std::move(param));
    } while (dwarf_siblingof(&child, &child) == 0);
    return params.empty();
  });
  return params;
}

}  // namespace brink::snap
