// The values of a trigger's hits: names (args.flags, args.dentry.d_inode.i_mode, ret, ctx.duration) -> where BPF finds
// them, one slot each, for --if and for display.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "brink/abi/snap.h"
#include "filter/parser.h"
#include "snap/kernel_types.h"
#include "snap/places.h"
#include "snap/trigger.h"

namespace brink::snap {

struct Value {
  std::string name;  // "flags", "ret"
  brink_snap_load load = {};
};

struct StringValue {
  std::string name;
  brink_snap_load load = {};
};

class ValueTable {
 public:
  // `types` may be null (no BTF), `program` is the file of a user trigger, `places` its places.
  ValueTable(const Trigger& trigger, KernelTypes* types, std::string program, std::vector<Place> places);

  // The slot of a name as the expression language writes it; allocates it at first use. Errors name what there is.
  StatusOr<filter::ExternalField> Resolve(std::string_view name);
  // Takes the trigger's own values and strings for display: results and arguments, as far as slots last.
  void AddShown();

  const std::vector<Value>& values() const { return values_; }
  const std::vector<StringValue>& strings() const { return strings_; }
  // A value needs what the function was entered with.
  bool needs_entry() const { return needs_entry_; }
  // fexit: where the result lies in the context.
  uint32_t result_offset() const { return result_offset_; }

 private:
  struct Argument {
    std::string name;
    brink_snap_load load = {};
    const btf* types = nullptr;  // of `type`; nullptr: no members
    uint32_t type = 0;
    bool is_string = false, user_string = false;
  };

  void FindArguments();
  void FindTracepointFields();
  void FindSyscallArguments();
  void FindKernelArguments(const KernelFunction& function);
  void FindUserArguments();
  void FindUsdtArguments();
  Status Locate(std::string_view name, Value* value);
  Status LocateResult(Value* value) const;
  StatusOr<Argument> FindArgument(std::string_view word) const;
  int SlotOf(std::string_view name) const;

  const Trigger& trigger_;
  KernelTypes* types_;
  std::string program_;
  std::vector<Place> places_;
  std::vector<Argument> arguments_;
  Status arguments_status_;
  std::vector<Value> values_;
  std::vector<StringValue> strings_;
  bool needs_entry_ = false;
  uint32_t result_offset_ = 0;
  uint8_t result_size_ = 8;     // an int's upper half is anything
  bool result_signed_ = true;
};

// "args.a->b" means args.a.b: the language has no arrows.
std::string ReplaceArrows(std::string_view text);

// Fields of a tracepoint's format file (tracefs): for tests.
struct FormatField {
  std::string name;
  uint32_t offset = 0, size = 0;
  bool is_signed = false, is_array = false, is_char_pointer = false;
};
std::vector<FormatField> ParseFormat(std::string_view text);

// One argument of a usdt note ("-4@%eax", "8@-16(%rbp)", "4@$3") -> load. False for forms that are not understood.
bool ParseUsdtArgument(std::string_view text, brink_snap_load* load);

}  // namespace brink::snap
