// One JSON object a line and sample: docs/schema/script.json.
#include <absl/strings/str_format.h>

#include "base/stop.h"
#include "perfdata/notes.h"
#include "script/json_text.h"
#include "script/names.h"
#include "script/script.h"
#include "script/tasks.h"

namespace brink::script {
namespace {

using perfdata::Record;
using perfdata::Sample;

class JsonForm : public Form {
 public:
  JsonForm(const perfdata::Reader& reader, Symbols* symbols, TextBuffer* out) : reader_(reader), symbols_(symbols), out_(*out), tasks_(false) {}

  void Observe(const Record& record) override { tasks_.Observe(record); }

  void Put(const Record& record, const Sample& sample) override {
    const perfdata::EventInfo& event = reader_.events()[static_cast<size_t>(record.event)];
    const uint64_t type = event.attr.sample_type;
    out_.Text(R"({"schema":"brink.sample.v1","time":)");
    PutTime(type, sample);
    out_.Text(R"(,"event":)"), PutJsonString(event.name, &out_);
    out_.Text(R"(,"comm":)");
    type & perfdata::kSampleTid ? PutJsonString(tasks_.Comm(sample.tid), &out_) : out_.Text("null");
    PutNumber("pid", type & perfdata::kSampleTid, sample.pid);
    PutNumber("tid", type & perfdata::kSampleTid, sample.tid);
    PutNumber("cpu", type & perfdata::kSampleCpu && sample.cpu != UINT32_MAX, sample.cpu);
    PutNumber("period", type & perfdata::kSamplePeriod, sample.period);
    out_.Text(R"(,"cgroup_id":)");
    type & perfdata::kSampleCgroup ? PutHexString(sample.cgroup) : out_.Text("null");
    out_.Text(R"(,"ip":)"), PutHexString(sample.ip);
    PutSymbol(R"(,"symbol":)", sample, sample.ip);
    PutNotes(event, sample);
    PutChain(type, sample);
    PutBranches(sample);
    out_.Text("}\n");
  }

 private:
  void PutTime(uint64_t type, const Sample& sample) {
    const auto& clock = reader_.features().clock_data;
    if (clock && type & perfdata::kSampleTime) {
      out_.Char('"'), out_.Text(Rfc3339(clock->wall_ns + (sample.time - clock->clock_ns))), out_.Char('"');
    } else {
      out_.Text("null");
    }
    PutNumber("monotonic_ns", type & perfdata::kSampleTime, sample.time);
  }

  void PutNumber(std::string_view name, bool known, uint64_t value) {
    out_.Text(",\""), out_.Text(name), out_.Text("\":");
    known ? out_.Dec(value) : out_.Text("null");
  }
  void PutHexString(uint64_t value) { out_.Text("\"0x"), out_.Hex(value), out_.Char('"'); }
  void PutWord(std::string_view name, bool known, std::string_view word) {
    out_.Text(",\""), out_.Text(name), out_.Text("\":");
    known ? (out_.Char('"'), out_.Text(word), out_.Char('"')) : out_.Text("null");
  }

  // Only with a symboliser: otherwise the member is left out rather than null, which would mean "has none".
  void PutSymbol(std::string_view member, const Sample& sample, uint64_t address) {
    if (!symbols_) return;
    const Symbols::Name& name = symbols_->Find(sample, address);
    out_.Text(member);
    name.symbol.empty() ? out_.Text("null") : PutJsonString(name.symbol, &out_);
  }

  void PutNotes(const perfdata::EventInfo& event, const Sample& sample) {
    const auto& notes = event.notes;
    auto note = notes && notes->sample_notes ? perfdata::ReadSampleNote(sample.raw) : std::nullopt;
    PutWord("source", notes.has_value(), notes ? SourceName(notes->source) : "");
    PutWord("direction", notes.has_value(), notes ? DirectionName(notes->direction) : "");
    out_.Text(R"(,"contiguous":)");
    out_.Text(!notes ? "null" : notes->contiguous && !(note && note->flags & BRINK_SAMPLE_FILTERED) ? "true" : "false");
    PutWord("stop", note.has_value(), note ? StopReasonName(note->stop) : "");
  }

  void PutChain(uint64_t type, const Sample& sample) {
    out_.Text(R"(,"chain":)");
    if (!(type & perfdata::kSampleCallchain)) return out_.Text("null");
    out_.Char('[');
    bool first = true;
    for (uint64_t ip : sample.chain) {
      if (ip >= perfdata::kContextMax) continue;
      if (!std::exchange(first, false)) out_.Char(',');
      PutHexString(ip);
    }
    out_.Char(']');
  }

  void PutBranches(const Sample& sample) {
    out_.Text(R"(,"branches":)");
    if (!sample.has_branches) return out_.Text("null");
    out_.Char('[');
    bool first = true;
    for (const BranchEntry& branch : sample.branches) {
      if (!std::exchange(first, false)) out_.Char(',');
      out_.Text(R"({"from":)"), PutHexString(branch.from);
      out_.Text(R"(,"to":)"), PutHexString(branch.to);
      PutSymbol(R"(,"from_symbol":)", sample, branch.from);
      PutSymbol(R"(,"to_symbol":)", sample, branch.to);
      PutWord("kind", branch.kind() != Kind::kUnknown, KindName(branch.kind()));
      out_.Text(R"(,"mispredicted":)");
      out_.Text(branch.prediction() == Prediction::kUnknown ? "null" : branch.prediction() == Prediction::kMispredicted ? "true" : "false");
      PutNumber("cycles", branch.cycles() != 0, branch.cycles());
      if (branch.in_tx()) out_.Text(R"(,"in_tx":true)");
      if (branch.abort()) out_.Text(R"(,"abort":true)");
      if (branch.spec() != Spec::kNa) PutWord("spec", true, kSpecs[static_cast<size_t>(branch.spec())]);
      std::string_view priv = PrivName(static_cast<uint32_t>(branch.priv()));
      if (!priv.empty()) PutWord("priv", true, priv);
      out_.Char('}');
    }
    out_.Char(']');
  }

  static constexpr std::string_view kSpecs[] = {"na", "wrong_path", "non_spec_correct_path", "spec_correct_path"};

  const perfdata::Reader& reader_;
  Symbols* symbols_;
  TextBuffer& out_;
  Tasks tasks_;
};

}  // namespace

std::unique_ptr<Form> MakeJsonForm(const perfdata::Reader& reader, const Options&, Symbols* symbols, TextBuffer* out) {
  return std::make_unique<JsonForm>(reader, symbols, out);
}

}  // namespace brink::script
