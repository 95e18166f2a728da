// The aggregate file's text: whatever is read can be written, and reads back as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "aggregate/file.h"

using namespace brink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  auto data = aggregate::FromText(std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!data.ok()) return 0;
  const std::string text = aggregate::ToText(*data);
  auto back = aggregate::FromText(text);
  if (!back.ok() || aggregate::ToText(*back) != text) std::abort();
  if (!back->Add(*data).ok()) std::abort();
  (void)back->Weigh(aggregate::Unit::kSamples);
  if (!aggregate::FromText(aggregate::ToText(*back)).ok()) std::abort();
  return 0;
}
