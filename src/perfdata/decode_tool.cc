// Records that perf itself writes. Attributes, features, names and build ids of a stream change the reader's state and
// are handled there (reader.cc); here is what is handed out.
#include "perfdata/decode.h"

namespace brink::perfdata {

bool DecodeToolRecord(const DecodeContext& context, std::span<std::byte> bytes, Record* record) {
  Cursor cursor(bytes.data(), bytes.size(), context.swap, context.copies);
  switch (record->type) {
    case kRecordFinishedRound:
      record->body = FinishedRound{cursor.left() >= 8 ? cursor.U64() : 0};
      break;
    case kRecordFinishedInit: record->body = FinishedInit{}; break;
    case kRecordTimeConv: {
      TimeConversion out;
      out.shift = cursor.U64();
      out.multiplier = cursor.U64();
      out.zero = cursor.U64();
      record->body = out;
      break;
    }
    case kRecordAuxtrace: {
      Auxtrace out;
      out.size = cursor.U64();
      out.offset = cursor.U64();
      out.reference = cursor.U64();
      out.index = cursor.U32();
      out.tid = cursor.U32();
      out.cpu = cursor.U32();
      record->body = out;
      break;
    }
    default: record->body = Other{bytes}; break;
  }
  return cursor.ok();
}

}  // namespace brink::perfdata
