// What brink says about its branch stacks inside a perf.data file, in places that every other reader ignores.
//
// A recording-wide note lives in EventAttr::sig_data. The kernel looks at that field only with the sigtrap bit, which
// a recorded event never has; perf prints it as a number. So it is there from the first byte on, in file and pipe mode,
// and survives a killed collector. A note for one sample lives in its PERF_SAMPLE_RAW field, which tools show only for
// tracepoint and bpf-output events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "brink/abi/event.h"

namespace brink::perfdata {

// About all stacks of one event.
struct EventNotes {
  uint8_t source = BRINK_SOURCE_NONE;        // enum brink_source
  uint8_t direction = BRINK_DIR_PAST;        // enum brink_direction
  bool contiguous = false;                   // every taken branch between oldest and newest is there
  bool sample_notes = false;                 // each sample carries a SampleNote in RAW

  friend bool operator==(const EventNotes&, const EventNotes&) = default;
};

inline constexpr uint64_t kEventNotesMagic = 0x6272696eull << 32;  // "brin" in the high half
inline constexpr uint64_t kEventNotesMagicMask = 0xffffffffull << 32;

// Low half: bits 0-7 layout version (1), 8-15 source, 16-19 direction, 20 contiguous, 21 notes per sample.
inline uint64_t PackEventNotes(const EventNotes& notes) {
  return kEventNotesMagic | 1 | static_cast<uint64_t>(notes.source) << 8 | static_cast<uint64_t>(notes.direction & 15) << 16 |
         static_cast<uint64_t>(notes.contiguous) << 20 | static_cast<uint64_t>(notes.sample_notes) << 21;
}

// Nothing for a file of another tool, and for a layout that this version does not know.
inline std::optional<EventNotes> UnpackEventNotes(uint64_t sig_data) {
  if ((sig_data & kEventNotesMagicMask) != kEventNotesMagic || (sig_data & 0xff) != 1) return std::nullopt;
  return EventNotes{.source = static_cast<uint8_t>(sig_data >> 8), .direction = static_cast<uint8_t>(sig_data >> 16 & 15),
                    .contiguous = (sig_data >> 20 & 1) != 0, .sample_notes = (sig_data >> 21 & 1) != 0};
}

// About one stack: the RAW payload. 28 bytes, so that the field with its u32 length keeps the record aligned.
struct SampleNote {
  uint32_t magic = kMagic;
  uint8_t source = BRINK_SOURCE_NONE;
  uint8_t direction = BRINK_DIR_PAST;
  uint8_t stop = BRINK_STOP_NONE;  // enum brink_stop
  uint8_t reserved = 0;
  uint16_t flags = 0;  // BRINK_SAMPLE_*; BRINK_SAMPLE_FILTERED ends contiguity for this stack
  uint16_t reserved2 = 0;
  uint32_t end_ip_low = 0;   // first instruction not followed (future stacks)
  uint32_t end_ip_high = 0;
  uint32_t steps = 0;
  uint32_t walk_ns = 0;

  static constexpr uint32_t kMagic = 0x6b6e7262;  // "brnk"
  uint64_t end_ip() const { return static_cast<uint64_t>(end_ip_high) << 32 | end_ip_low; }
  void set_end_ip(uint64_t ip) {
    end_ip_low = static_cast<uint32_t>(ip);
    end_ip_high = static_cast<uint32_t>(ip >> 32);
  }
};
static_assert(sizeof(SampleNote) == 28 && offsetof(SampleNote, end_ip_low) == 12);

// Of a RAW payload in native byte order (brink writes no other).
inline std::optional<SampleNote> ReadSampleNote(std::span<const std::byte> raw) {
  SampleNote note;
  if (raw.size() < sizeof(note)) return std::nullopt;
  std::memcpy(&note, raw.data(), sizeof(note));
  if (note.magic != SampleNote::kMagic) return std::nullopt;
  return note;
}

inline SampleNote MakeSampleNote(const brink_sample& sample) {
  SampleNote note;
  note.source = sample.source;
  note.direction = sample.direction;
  note.stop = sample.stop;
  note.flags = sample.flags;
  note.set_end_ip(sample.end_ip);
  note.steps = sample.steps;
  note.walk_ns = sample.walk_ns;
  return note;
}

}  // namespace brink::perfdata
