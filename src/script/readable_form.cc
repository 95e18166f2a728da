// One headline a sample, then one line a branch, newest first.
#include <absl/strings/str_format.h>

#include "base/stop.h"
#include "base/strings.h"
#include "perfdata/notes.h"
#include "script/names.h"
#include "script/script.h"
#include "script/tasks.h"

namespace brink::script {
namespace {

using perfdata::Record;
using perfdata::Sample;

class ReadableForm : public Form {
 public:
  ReadableForm(const perfdata::Reader& reader, Symbols* symbols, TextBuffer* out)
      : reader_(reader), symbols_(symbols), out_(*out), tasks_(false) {}

  void Observe(const Record& record) override { tasks_.Observe(record); }

  void Put(const Record& record, const Sample& sample) override {
    const perfdata::EventInfo& event = reader_.events()[static_cast<size_t>(record.event)];
    Headline(event, sample);
    for (uint64_t ip : sample.chain) {
      if (ip >= perfdata::kContextMax) continue;
      out_.Text("    at ");
      PutAddress(sample, ip);
      out_.Char('\n');
    }
    for (const BranchEntry& branch : sample.branches) PutBranch(sample, branch);
  }

 private:
  void Headline(const perfdata::EventInfo& event, const Sample& sample) {
    const uint64_t type = event.attr.sample_type;
    if (type & perfdata::kSampleTid) {
      out_.Text(EscapeForTerminal(tasks_.Comm(sample.tid)));
      out_.Text(absl::StrFormat(" %d/%d ", static_cast<int32_t>(sample.pid), static_cast<int32_t>(sample.tid)));
    }
    if (type & perfdata::kSampleCpu) out_.Text(absl::StrFormat("cpu %d ", static_cast<int32_t>(sample.cpu)));
    if (type & perfdata::kSampleTime) out_.Text(absl::StrFormat("%d.%09d s ", sample.time / 1'000'000'000, sample.time % 1'000'000'000));
    out_.Text(EscapeForTerminal(event.name));
    out_.Text(" at ");
    PutAddress(sample, sample.ip);
    if (event.notes) {
      out_.Text(absl::StrFormat(", %s %s", std::string(SourceName(event.notes->source)), std::string(DirectionName(event.notes->direction))));
    }
    if (!sample.has_branches) {
      out_.Text(", no branch stack\n");
      return;
    }
    out_.Text(absl::StrFormat(", %d branches", sample.branches.size()));
    if (event.notes && event.notes->sample_notes) {
      if (auto note = perfdata::ReadSampleNote(sample.raw)) {
        if (note->stop != BRINK_STOP_NONE) out_.Text(absl::StrFormat(", ended by %s", std::string(StopReasonName(note->stop))));
        if (note->flags & BRINK_SAMPLE_FILTERED) out_.Text(", filtered");
        if (note->flags & BRINK_SAMPLE_TRUNCATED) out_.Text(", truncated");
      }
    }
    out_.Char('\n');
  }

  void PutAddress(const Sample& sample, uint64_t address) {
    out_.Text("0x");
    out_.Hex(address);
    if (!symbols_) return;
    const Symbols::Name& name = symbols_->Find(sample, address);
    if (name.symbol.empty()) return;
    out_.Char(' ');
    out_.Text(EscapeForTerminal(name.symbol));
    if (name.offset != 0) out_.Text("+0x"), out_.Hex(name.offset);
    if (!name.source.empty()) out_.Text(" ("), out_.Text(EscapeForTerminal(name.source)), out_.Char(')');
  }

  void PutBranch(const Sample& sample, const BranchEntry& branch) {
    out_.Text("    ");
    PutAddress(sample, branch.from);
    out_.Text(" -> ");
    PutAddress(sample, branch.to);
    if (branch.kind() != Kind::kUnknown) out_.Text("  "), out_.Text(KindName(branch.kind()));
    if (branch.prediction() == Prediction::kPredicted) out_.Text("  predicted");
    if (branch.prediction() == Prediction::kMispredicted) out_.Text("  MISPREDICTED");
    if (branch.cycles() != 0) out_.Text("  "), out_.Dec(branch.cycles()), out_.Text(" cycles");
    if (branch.in_tx()) out_.Text("  in_tx");
    if (branch.spec() == Spec::kWrongPath) out_.Text("  wrong_path");
    if (std::string_view priv = PrivName(static_cast<uint32_t>(branch.priv())); !priv.empty()) out_.Text("  to "), out_.Text(priv);
    out_.Char('\n');
  }

  const perfdata::Reader& reader_;
  Symbols* symbols_;
  TextBuffer& out_;
  Tasks tasks_;
};

}  // namespace

std::unique_ptr<Form> MakeReadableForm(const perfdata::Reader& reader, const Options&, Symbols* symbols, TextBuffer* out) {
  return std::make_unique<ReadableForm>(reader, symbols, out);
}

}  // namespace brink::script
