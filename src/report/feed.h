// Records of a recording into the model of its address spaces.
#pragma once

#include <cstddef>
#include <span>

#include "perfdata/reader.h"
#include "report/stack.h"
#include "symbol/address_space.h"
#include "symbol/symbolizer.h"

namespace brink::report {

// Build ids that the file's header states. Before the first record, and (pipe mode) again when there may be more.
void ApplyBuildIds(const perfdata::Features& features, symbol::ObjectTable* objects);

// MMAP, MMAP2, COMM, FORK, EXIT and KSYMBOL; everything else is ignored. In the order of time.
void ApplyRecord(const perfdata::Record& record, symbol::AddressSpaces* spaces);

// The same for a record as the kernel wrote it (or a synthesised one), without its trailer: live views.
void ApplyLiveRecord(std::span<const std::byte> record, symbol::AddressSpaces* spaces);

// Whether an event's stacks hold every taken branch, and whether they are call stacks: from brink's own note, else from
// branch_sample_type (ANY without a choice of kinds; 0 with stacks present is taken for ANY, as decoded traces have it).
StackMeta MetaOf(const perfdata::EventInfo& event);

// Whether the recording names another kernel release or host than this one: then files here are not those there.
bool RecordedElsewhere(const perfdata::Features& features);

}  // namespace brink::report
