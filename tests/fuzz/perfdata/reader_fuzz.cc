// Any bytes as a recording: file or stream, ordered or not, and every form of text made of it. The reader must end, stay
// within its bounds, and deliver only views into memory that it owns.
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

#include "perfdata/reader.h"
#include "script/script.h"

namespace {

using namespace brink;

// Touches every byte that a record gives a view of.
uint64_t Touch(const perfdata::Record& record) {
  uint64_t sum = record.time + record.id.id;
  auto bytes = [&](auto span) {
    for (auto b : span) sum += static_cast<uint64_t>(b);
  };
  if (const perfdata::Sample* s = record.sample()) {
    for (const BranchEntry& b : s->branches) sum += b.from + b.to + b.info;
    bytes(s->chain), bytes(s->raw), bytes(s->counters), bytes(s->stack_user), bytes(s->aux), bytes(s->regs_user.values), bytes(s->regs_intr.values);
    for (size_t i = 0; i < s->read.count(); ++i) sum += s->read.value(i);
  }
  if (const auto* mmap = std::get_if<perfdata::Mmap>(&record.body)) bytes(mmap->filename), bytes(mmap->build_id);
  if (const auto* comm = std::get_if<perfdata::Comm>(&record.body)) bytes(comm->comm);
  if (const auto* symbol = std::get_if<perfdata::Ksymbol>(&record.body)) bytes(symbol->name);
  if (const auto* cgroup = std::get_if<perfdata::Cgroup>(&record.body)) bytes(cgroup->path);
  if (const auto* spaces = std::get_if<perfdata::Namespaces>(&record.body)) bytes(spaces->pairs);
  if (const auto* poke = std::get_if<perfdata::TextPoke>(&record.body)) bytes(poke->old_bytes), bytes(poke->new_bytes);
  if (const auto* bpf = std::get_if<perfdata::BpfEvent>(&record.body)) bytes(bpf->tag);
  if (const auto* other = std::get_if<perfdata::Other>(&record.body)) bytes(other->bytes);
  return sum;
}

void ReadAll(const std::string& text, bool stream, bool ordered) {
  perfdata::ReaderOptions options{.ordered = ordered, .max_queue_bytes = 1 << 20, .chunk_bytes = 128 << 10};
  auto reader = perfdata::Reader::Open(perfdata::MemoryInput(text, stream), options);
  if (!reader.ok()) return;
  perfdata::Record record;
  volatile uint64_t sum = 0;
  while (true) {
    auto more = (*reader)->Next(&record);
    if (!more.ok() || !*more) break;
    sum = sum + Touch(record);
  }
}

void WriteText(const std::string& text, script::Style style) {
  static const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  auto reader = perfdata::Reader::Open(perfdata::MemoryInput(text), {.max_queue_bytes = 1 << 20, .chunk_bytes = 128 << 10});
  if (!reader.ok()) return;
  script::Options options;
  options.style = style;
  options.fields = script::kComm | script::kPid | script::kTid | script::kCpu | script::kTime | script::kEvent | script::kIp | script::kBrstack;
  options.limit = 1000;
  script::TextBuffer out(null, 4096);
  (void)script::WriteSamples(**reader, options, nullptr, &out);
  (void)script::HeaderFacts(**reader, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  std::string text(reinterpret_cast<const char*>(data), size);
  ReadAll(text, false, true);
  ReadAll(text, false, false);
  ReadAll(text, true, true);
  for (script::Style style : {script::Style::kPerf, script::Style::kReadable, script::Style::kJson}) WriteText(text, style);
  return 0;
}
