// google/pprof's profile.proto by hand: few messages, and no generator to depend on.
#include <zlib.h>

#include "base/strings.h"
#include "export/timeline.h"

namespace brink::exporter {
namespace {

// One protobuf message.
class Message {
 public:
  void Varint(uint32_t field, uint64_t value) {
    if (value == 0) return;  // the default
    Raw(field << 3);
    Raw(value);
  }
  void Bytes(uint32_t field, std::string_view bytes) {
    Raw(field << 3 | 2);
    Raw(bytes.size());
    bytes_ += bytes;
  }
  void Packed(uint32_t field, const std::vector<uint64_t>& values) {
    Message list;
    for (uint64_t value : values) list.Raw(value);
    Bytes(field, list.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Raw(uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Field numbers of profile.proto.
enum ProfileField { kSampleType = 1, kSample, kMapping, kLocation, kFunction, kStringTable, kTimeNanos = 9, kDurationNanos, kPeriodType, kPeriod, kComment };

class Builder {
 public:
  Builder(const SampleCollector& samples, report::Program& program) : samples_(samples), program_(program) { String(""); }

  std::string Build() {
    const bool clock = program_.facts.cpu_ns != 0;
    ValueType(kSampleType, "samples", "count");
    if (clock) ValueType(kSampleType, "cpu", "nanoseconds");
    Samples(clock);
    if (clock) ValueType(kPeriodType, "cpu", "nanoseconds");
    if (clock && program_.facts.most_frequent) profile_.Varint(kPeriod, 1'000'000'000 / program_.facts.most_frequent);
    profile_.Varint(kDurationNanos, program_.facts.last_time - program_.facts.first_time);
    const uint64_t comment = String("brink: " + program_.facts.path);
    profile_.Varint(kComment, comment);
    for (const std::string& text : strings_) profile_.Bytes(kStringTable, text);
    return profile_.bytes();
  }

 private:
  uint64_t String(const std::string& text) {
    auto [it, fresh] = string_index_.try_emplace(text, strings_.size());
    if (fresh) strings_.push_back(text);
    return it->second;
  }
  void ValueType(uint32_t field, const char* type, const char* unit) {
    Message value;
    value.Varint(1, String(type));
    value.Varint(2, String(unit));
    profile_.Bytes(field, value.bytes());
  }

  void Samples(bool clock) {
    struct Sum {
      uint64_t count = 0, period = 0;
    };
    std::map<std::pair<uint32_t, int32_t>, Sum> sums;  // leaf, thread
    std::map<int32_t, int32_t> pids;
    for (const TimedSample& sample : samples_.samples()) {
      Sum& sum = sums[{sample.node, sample.tid}];
      const bool counted = sample.tid >= 0;  // else of an aggregate: the period is a count
      sum.count += counted ? 1 : sample.period;
      sum.period += counted ? sample.period : 0;
      pids[sample.tid] = sample.pid;
    }
    for (const auto& [key, sum] : sums) {
      Message sample;
      std::vector<uint64_t> locations;
      for (uint32_t node = key.first; node != 0; node = samples_.nodes()[node].parent) locations.push_back(LocationId(samples_.nodes()[node].place));
      sample.Packed(1, locations);
      std::vector<uint64_t> values = {sum.count};
      if (clock) values.push_back(sum.period);
      sample.Packed(2, values);
      if (key.second >= 0) {
        Label(sample, "thread", samples_.NameOf(key.second), 0);
        Label(sample, "tid", "", static_cast<uint64_t>(key.second));
        Label(sample, "pid", "", static_cast<uint64_t>(pids[key.second]));
      }
      profile_.Bytes(kSample, sample.bytes());
    }
  }
  void Label(Message& sample, const char* key, const std::string& text, uint64_t number) {
    if (text.empty() && number == 0) return;
    Message label;
    label.Varint(1, String(key));
    label.Varint(2, text.empty() ? 0 : String(EscapeForTerminal(text)));
    label.Varint(3, number);
    sample.Bytes(3, label.bytes());
  }

  uint64_t LocationId(const Location& place) {
    auto [it, fresh] = locations_.try_emplace(place, locations_.size() + 1);
    if (!fresh) return it->second;
    const uint64_t id = it->second;
    Message location;
    location.Varint(1, id);
    location.Varint(2, MappingId(place.object));
    location.Varint(3, program_.symbolizer->VaddrOf(place).value_or(place.offset));
    const auto frames = program_.symbolizer->FramesAt(place);  // innermost first, as pprof wants them
    if (frames.empty()) {
      const symbol::Function& function = (*program_.symbolizer)[program_.FunctionAt(place)];
      Line(location, FunctionId(function.name, function.mangled, ""), 0);
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      // The outermost is the function itself; debug information may name it differently than the symbol does.
      Line(location, FunctionId(frames[i].function, "", frames[i].file), frames[i].line);
    }
    profile_.Bytes(kLocation, location.bytes());
    return id;
  }
  static void Line(Message& location, uint64_t function, uint64_t number) {
    Message line;
    line.Varint(1, function);
    line.Varint(2, number);
    location.Bytes(4, line.bytes());
  }
  uint64_t FunctionId(const std::string& name, const std::string& system_name, const std::string& file) {
    auto [it, fresh] = functions_.try_emplace({name, file}, functions_.size() + 1);
    if (!fresh) return it->second;
    Message function;
    function.Varint(1, it->second);
    function.Varint(2, String(EscapeForTerminal(name)));
    function.Varint(3, String(EscapeForTerminal(system_name.empty() ? name : system_name)));
    function.Varint(4, String(EscapeForTerminal(file)));
    profile_.Bytes(kFunction, function.bytes());
    return it->second;
  }
  // Addresses are link-time ones, so a mapping covers its whole file.
  uint64_t MappingId(symbol::ObjectId object) {
    auto [it, fresh] = mappings_.try_emplace(object, mappings_.size() + 1);
    if (!fresh) return it->second;
    const symbol::Object& what = program_.objects[object];
    Message mapping;
    mapping.Varint(1, it->second);
    mapping.Varint(3, INT64_MAX);
    mapping.Varint(5, String(EscapeForTerminal(what.path.empty() ? what.ShortName() : what.path)));
    if (!what.build_id.empty()) mapping.Varint(6, String(HexEncode(what.build_id)));
    for (uint32_t has : {7u, 8u, 9u, 10u}) mapping.Varint(has, 1);
    profile_.Bytes(kMapping, mapping.bytes());
    return it->second;
  }

  const SampleCollector& samples_;
  report::Program& program_;
  Message profile_;
  std::vector<std::string> strings_;
  std::map<std::string, uint64_t> string_index_;
  std::map<Location, uint64_t> locations_;
  std::map<std::pair<std::string, std::string>, uint64_t> functions_;
  std::map<symbol::ObjectId, uint64_t> mappings_;
};

}  // namespace

StatusOr<std::string> PprofBytes(const SampleCollector& samples, report::Program& program) {
  const std::string bytes = Builder(samples, program).Build();
  z_stream stream = {};
  constexpr int kGzip = 15 + 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) return Internal("zlib cannot begin");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return Internal("zlib cannot end");
  return out;
}

}  // namespace brink::exporter
