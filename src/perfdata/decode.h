// Bytes of one record into its typed form.
#pragma once

#include <cstddef>
#include <span>

#include "perfdata/attr.h"
#include "perfdata/bytes.h"
#include "perfdata/records.h"

namespace brink::perfdata {

struct DecodeContext {
  const EventAttr* attr = nullptr;  // nullptr for records of the tool
  const RecordLayout* layout = nullptr;
  bool swap = false;
  AlignedCopies* copies = nullptr;
};

// Fills record->body, id and time from what follows the header. False: a length in it points beyond its end.
// With context.swap the memory is turned into native order on the way, so it can be decoded once only.
bool DecodeBody(const DecodeContext& context, std::span<std::byte> bytes, Record* record);

// decode_sample.cc
bool DecodeSample(const DecodeContext& context, std::span<std::byte> bytes, Sample* sample);
// Values of READ records and of the READ field.
CounterValues DecodeCounterValues(uint64_t read_format, Cursor* cursor);
// decode_tool.cc: records from 64 up.
bool DecodeToolRecord(const DecodeContext& context, std::span<std::byte> bytes, Record* record);

}  // namespace brink::perfdata
