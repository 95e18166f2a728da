// Any text as a trigger: parsed or refused with a column inside of the text; what is parsed is parsed the same again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "snap/trigger.h"

using namespace brink::snap;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto trigger = ParseTrigger(text);
  if (!trigger.ok()) {
    if (trigger.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    // One beyond the end is where something is missing.
    if (TriggerErrorColumn(trigger.status()) > size + 1) std::abort();
    return 0;
  }
  if (trigger->text != text) std::abort();
  (void)trigger->side();
  (void)trigger->glob();
  if (TriggerKindName(trigger->kind).empty()) std::abort();
  auto again = ParseTrigger(trigger->text);
  if (!again.ok() || again->kind != trigger->kind || again->name != trigger->name || again->symbol != trigger->symbol || again->offset != trigger->offset ||
      again->signals != trigger->signals || again->address != trigger->address) {
    std::abort();
  }
  return 0;
}
