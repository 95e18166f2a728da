// The Firefox profiler's processed format: tables as columns, one set a thread.
#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "export/timeline.h"
#include "report/table.h"

namespace brink::exporter {
namespace {

using report::JsonString;
using symbol::FunctionId;
using symbol::ObjectId;

// The versions of which the tables below are; the profiler upgrades older ones itself.
constexpr int kGeckoVersion = 24, kProcessedVersion = 46;
constexpr int kUser = 0, kKernel = 1;  // categories

// A JSON array that is built up.
class Array {
 public:
  void Number(uint64_t value) { Raw(std::to_string(value)); }
  void Null() { Raw("null"); }
  void Raw(const std::string& text) {
    text_ += (count_++ ? "," : "") + text;
  }
  size_t size() const { return count_; }
  std::string text() const { return "[" + text_ + "]"; }
  // The same value so often.
  static std::string Filled(size_t count, const char* value) {
    Array array;
    for (size_t i = 0; i < count; ++i) array.Raw(value);
    return array.text();
  }

 private:
  std::string text_;
  size_t count_ = 0;
};

class Libraries {
 public:
  explicit Libraries(report::Program& program) : program_(program) {}
  size_t Index(ObjectId id) {
    auto [it, fresh] = index_.try_emplace(id, index_.size());
    if (fresh) {
      const symbol::Object& object = program_.objects[id];
      const std::string name = JsonString(object.ShortName()), path = JsonString(object.path);
      const std::string code = object.build_id.empty() ? "null" : JsonString(HexEncode(object.build_id));
      list_.Raw("{\"arch\":null,\"name\":" + name + ",\"path\":" + path + ",\"debugName\":" + name + ",\"debugPath\":" + path + ",\"breakpadId\":\"\",\"codeId\":" + code + "}");
    }
    return it->second;
  }
  std::string text() const { return list_.text(); }

 private:
  report::Program& program_;
  std::map<ObjectId, size_t> index_;
  Array list_;
};

class Thread {
 public:
  Thread(const SampleCollector& samples, const ThreadSamples& thread, report::Program& program, Libraries& libraries)
      : samples_(samples), thread_(thread), program_(program), libraries_(libraries) {}

  std::string Build(uint64_t start_ns, bool clock) {
    Array stacks, times, weights;  // weights in ms of clock events, else 1 a sample
    for (const TimedSample& sample : thread_.samples) {
      stacks.Number(Stack(sample.node));
      times.Raw(absl::StrFormat("%.6f", static_cast<double>(sample.time - std::min(sample.time, start_ns)) / 1e6));
      weights.Raw(clock ? absl::StrFormat("%.6f", static_cast<double>(sample.period) / 1e6) : "1");
    }
    const size_t n = stacks.size();
    std::string name = samples_.NameOf(thread_.tid), process = samples_.NameOf(thread_.pid);
    if (name.empty()) name = absl::StrFormat("thread %d", thread_.tid);
    if (process.empty()) process = absl::StrFormat("process %d", thread_.pid);
    const std::string weight_type = clock ? "\"tracing-ms\"" : "\"samples\"";
    return "{\"name\":" + JsonString(name) + ",\"processName\":" + JsonString(process) + absl::StrFormat(",\"isMainThread\":%s,\"pid\":\"%d\",\"tid\":\"%d\"", thread_.pid == thread_.tid ? "true" : "false", thread_.pid, thread_.tid) +
           ",\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],"
           "\"markers\":{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]},"
           "\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]},"
           "\"samples\":{" + Length(n) + ",\"stack\":" + stacks.text() + ",\"time\":" + times.text() + ",\"weight\":" + weights.text() + ",\"weightType\":" + weight_type + "}," +
           Tables() + "}";
  }

 private:
  static std::string Length(size_t n) { return absl::StrFormat("\"length\":%d", n); }

  size_t String(const std::string& text) {
    auto [it, fresh] = string_index_.try_emplace(text, string_index_.size());
    if (fresh) strings_.Raw(JsonString(text));
    return it->second;
  }
  size_t Stack(uint32_t node) {
    if (auto known = stack_index_.find(node); known != stack_index_.end()) return known->second;
    const StackNode& here = samples_.nodes()[node];
    const bool root = here.parent == 0;
    const size_t prefix = root ? 0 : Stack(here.parent);
    const size_t frame = Frame(here.place);
    root ? prefixes_.Null() : prefixes_.Number(prefix);
    frames_of_stacks_.Number(frame);
    stack_categories_.Number(Category(here.place));
    const size_t index = stack_index_.size();
    stack_index_[node] = index;
    return index;
  }
  uint64_t Category(const Location& place) const {
    const symbol::ObjectKind kind = program_.objects[place.object].kind;
    return kind == symbol::ObjectKind::kKernel || kind == symbol::ObjectKind::kModule || kind == symbol::ObjectKind::kBpf ? kKernel : kUser;
  }
  size_t Frame(const Location& place) {
    auto [it, fresh] = frame_index_.try_emplace(place, frame_index_.size());
    if (!fresh) return it->second;
    addresses_.Number(program_.symbolizer->VaddrOf(place).value_or(place.offset));
    frame_funcs_.Number(Func(place));
    frame_categories_.Number(Category(place));
    auto source = program_.symbolizer->FramesAt(place);
    source.empty() || source[0].line == 0 ? frame_lines_.Null() : frame_lines_.Number(source[0].line);
    return it->second;
  }
  size_t Func(const Location& place) {
    auto [it, fresh] = func_index_.try_emplace(program_.FunctionAt(place), func_index_.size());
    if (!fresh) return it->second;
    const symbol::Function& function = (*program_.symbolizer)[it->first];
    func_names_.Number(String(function.name));
    func_resources_.Number(Resource(place.object));
    auto source = program_.symbolizer->FramesAt(place);
    source.empty() || source.back().file.empty() ? func_files_.Null() : func_files_.Number(String(source.back().file));
    return it->second;
  }
  size_t Resource(ObjectId object) {
    auto [it, fresh] = resource_index_.try_emplace(object, resource_index_.size());
    if (fresh) {
      resource_libs_.Number(libraries_.Index(object));
      resource_names_.Number(String(program_.objects[object].ShortName()));
    }
    return it->second;
  }

  std::string Tables() const {
    const size_t f = frame_index_.size(), u = func_index_.size(), s = stack_index_.size(), r = resource_index_.size();
    const std::string f_null = Array::Filled(f, "null"), u_null = Array::Filled(u, "null");
    return "\"stackTable\":{" + Length(s) + ",\"prefix\":" + prefixes_.text() + ",\"frame\":" + frames_of_stacks_.text() + ",\"category\":" + stack_categories_.text() + ",\"subcategory\":" + Array::Filled(s, "0") + "}," +
           "\"frameTable\":{" + Length(f) + ",\"address\":" + addresses_.text() + ",\"inlineDepth\":" + Array::Filled(f, "0") + ",\"category\":" + frame_categories_.text() + ",\"subcategory\":" + Array::Filled(f, "0") +
           ",\"func\":" + frame_funcs_.text() + ",\"nativeSymbol\":" + f_null + ",\"innerWindowID\":" + f_null + ",\"implementation\":" + f_null + ",\"line\":" + frame_lines_.text() + ",\"column\":" + f_null + ",\"optimizations\":" + f_null + "}," +
           "\"funcTable\":{" + Length(u) + ",\"name\":" + func_names_.text() + ",\"isJS\":" + Array::Filled(u, "false") + ",\"relevantForJS\":" + Array::Filled(u, "false") + ",\"resource\":" + func_resources_.text() +
           ",\"fileName\":" + func_files_.text() + ",\"lineNumber\":" + u_null + ",\"columnNumber\":" + u_null + "}," +
           "\"resourceTable\":{" + Length(r) + ",\"lib\":" + resource_libs_.text() + ",\"name\":" + resource_names_.text() + ",\"host\":" + Array::Filled(r, "null") + ",\"type\":" + Array::Filled(r, "1") + "}," +
           "\"stringArray\":" + strings_.text();
  }

  const SampleCollector& samples_;
  const ThreadSamples& thread_;
  report::Program& program_;
  Libraries& libraries_;
  std::map<std::string, size_t> string_index_;
  std::map<uint32_t, size_t> stack_index_;
  std::map<Location, size_t> frame_index_;
  std::map<FunctionId, size_t> func_index_;
  std::map<ObjectId, size_t> resource_index_;
  Array strings_, prefixes_, frames_of_stacks_, stack_categories_, addresses_, frame_funcs_, frame_categories_, frame_lines_, func_names_, func_resources_, func_files_, resource_libs_, resource_names_;
};

}  // namespace

std::string FirefoxJson(const SampleCollector& samples, report::Program& program, const std::string& name) {
  const bool clock = program.facts.cpu_ns != 0;
  Libraries libraries(program);
  std::string threads;
  for (const ThreadSamples& thread : ByThread(samples)) {
    threads += (threads.empty() ? "" : ",\n") + Thread(samples, thread, program, libraries).Build(program.facts.first_time, clock);
  }
  const double interval = program.facts.most_frequent ? 1000.0 / static_cast<double>(program.facts.most_frequent) : 1.0;
  return "{\"meta\":{" + absl::StrFormat("\"version\":%d,\"preprocessedProfileVersion\":%d,\"interval\":%.6f", kGeckoVersion, kProcessedVersion, interval) +
         ",\"startTime\":0,\"processType\":0,\"product\":" + JsonString(name) + ",\"importedFrom\":\"brink\",\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,\"pausedRanges\":[],\"markerSchema\":[],"
         "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,\"sourceCodeIsNotOnSearchfox\":true,"
         "\"categories\":[{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}],"
         "\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]},\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},\n" +
         "\"libs\":" + libraries.text() + ",\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\n\"threads\":[" + threads + "]}\n";
}

}  // namespace brink::exporter
