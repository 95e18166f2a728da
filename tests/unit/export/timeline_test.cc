// Call stacks over time, from chains and from branches alone.
#include "export/timeline.h"

#include <fstream>
#include <gmock/gmock.h>

#include "export/rows.h"
#include "made_recording.h"
#include "report/loader.h"

namespace brink::exporter {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::TempDir;


class TimelineTest : public testing::Test, protected MadeProgram {
 protected:
  void Load() {
    report::LoadOptions load;
    load.observe = [this](report::Program& program) { return &samples_.emplace(&program); };
    auto loaded = report::LoadProgram(data_, load);
    ASSERT_THAT(loaded, IsOk());
    loaded_ = *std::move(loaded);
  }
  std::optional<SampleCollector> samples_;
  std::unique_ptr<report::Program> loaded_;
};

TEST_F(TimelineTest, ChainsBecomeFoldedStacks) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(false));
    recording.MapProgram(7, kBias, program_);
    for (int i = 0; i < 2; ++i) recording.Sample(7, {}, {.ip = kBias + 0x1188, .chain = {perfdata::kContextUser, kBias + 0x1188, kBias + 0x1125, kBias + 0x1255}});
    recording.Sample(7, {}, {.ip = kBias + 0x1128, .chain = {perfdata::kContextUser, kBias + 0x1128, kBias + 0x1255}});
  }
  Load();
  EXPECT_EQ(FoldedText(*samples_, *loaded_), "made;h;f 1\nmade;h;f;g 2\n");
  EXPECT_EQ(samples_->derived(), 0u);
}

TEST_F(TimelineTest, AReturnAddressBehindTheFunctionBelongsToTheCall) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(false));
    recording.MapProgram(7, kBias, program_);
    // f ends with its call of g: the return address is already h's first byte's neighbour, g's start.
    recording.Sample(7, {}, {.ip = kBias + 0x1210, .chain = {perfdata::kContextUser, kBias + 0x1210, kBias + 0x1180}});
  }
  Load();
  EXPECT_EQ(FoldedText(*samples_, *loaded_), "made;f;h 1\n");
}

TEST_F(TimelineTest, PastBranchesShowTheCallsThatHadNotReturned) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    // h called f; f called g and g returned; f called g again, where the sample hit.
    recording.Sample(7, Moved({{0x1140, 0x1180, Kind::kCall}, {0x1190, 0x1125, Kind::kRet}, {0x1120, 0x1180, Kind::kCall}, {0x1250, 0x1100, Kind::kCall}}, kBias), {.ip = kBias + 0x1184});
  }
  Load();
  EXPECT_EQ(FoldedText(*samples_, *loaded_), "made;h;f;g 1\n");
  EXPECT_EQ(samples_->derived(), 1u);
}

TEST_F(TimelineTest, FutureBranchesShowWhereReturnsWithoutTheirCallLead) {
  {
    MadeRecording recording(data_, MadeRecording::WithChains(true));
    recording.MapProgram(7, kBias, program_);
    // The sample hit g. It returns to f, which calls g again; that returns, and f returns to h.
    recording.Sample(7, Moved({{0x1150, 0x1255, Kind::kRet}, {0x1190, 0x1145, Kind::kRet}, {0x1140, 0x1180, Kind::kCall}, {0x1190, 0x1125, Kind::kRet}}, kBias), {.ip = kBias + 0x1184});
  }
  Load();
  EXPECT_EQ(FoldedText(*samples_, *loaded_), "made;h;f;g 1\n");
}

TEST_F(TimelineTest, FilteredStacksSayNothingOfCallers) {
  {
    MadeRecording recording(data_, MadeRecording::AsPerf(perfdata::kBranchUser | perfdata::kBranchAnyCall));
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved({{0x1120, 0x1180, Kind::kCall}}, kBias), {.ip = kBias + 0x1184});
  }
  Load();
  EXPECT_EQ(FoldedText(*samples_, *loaded_), "made;g 1\n");
}

// Two samples of h;f;g 1 ms apart, then h;f, then a gap of 10 ms, then h.
class Timed : public TimelineTest {
 protected:
  void SetUp() override {
    samples_.emplace(loaded_.get());
    report::SampleView view{.pid = 7, .tid = 7, .period = 1'000'000};
    auto add = [&](uint64_t time, std::vector<uint64_t> chain) {
      for (uint64_t& address : chain) address += kBias;
      view.time = time;
      view.chain = chain;
      samples_->OnSample(view);
    };
    add(1'000'000, {0x1188, 0x1125, 0x1255});
    add(2'000'000, {0x1189, 0x1125, 0x1255});
    add(3'000'000, {0x1128, 0x1255});
    add(13'000'000, {0x1230});
  }
  Timed() {
    {
      MadeRecording recording(data_);
      recording.MapProgram(7, kBias, program_);
      recording.Sample(7, Moved({{0x1120, 0x1180, Kind::kCall}}, kBias));
    }
    Load();
  }
};

TEST_F(Timed, PerfettoJoinsWhatGoesOn) {
  const std::string json = PerfettoJson(*samples_, *loaded_);
  auto slice = [](const char* name, const char* from, const char* length) {
    return std::string("\"ts\":") + from + ",\"dur\":" + length + ",\"name\":\"" + name + "\"";
  };
  EXPECT_THAT(json, HasSubstr(slice("g", "1000.000", "2000.000")));
  EXPECT_THAT(json, HasSubstr(slice("f", "1000.000", "3500.000"))) << "until one and a half periods after its last sample";
  EXPECT_THAT(json, HasSubstr(slice("h", "1000.000", "3500.000")));
  EXPECT_THAT(json, HasSubstr(slice("h", "13000.000", "1500.000")));
  EXPECT_THAT(json, HasSubstr(R"("name":"thread_name","args":{"name":"made"})"));
}

TEST_F(Timed, SpeedscopeHasWeightsInNanoseconds) {
  const std::string json = SpeedscopeJson(*samples_, *loaded_, "made.data");
  EXPECT_THAT(json, HasSubstr(R"("frames":[{"name":"h","file":"made"},)"));
  EXPECT_THAT(json, HasSubstr(R"("unit":"nanoseconds","startValue":0,"endValue":4000000,"samples":[[0,1,2],[0,1,2],[0,1],[0]],"weights":[1000000,1000000,1000000,1000000])"));
}

TEST_F(Timed, FirefoxTablesAreColumns) {
  const std::string json = FirefoxJson(*samples_, *loaded_, "made.data");
  // Two places in g, one return place in f and its sampled one, one call in h and its sampled place.
  EXPECT_THAT(json, HasSubstr(R"("samples":{"length":4,"stack":[2,3,4,5],"time":[0.99)"));
  EXPECT_THAT(json, HasSubstr(R"("prefix":[null,0,1,1,0,null])"));
  EXPECT_THAT(json, HasSubstr(R"("weight":[1.000000,1.000000,1.000000,1.000000],"weightType":"tracing-ms")"));
  EXPECT_THAT(json, HasSubstr(R"("stringArray":["h","made","f","g"])"));
}

TEST_F(TimelineTest, RowsHaveBothAddressesAndUnknownIsEmpty) {
  {
    MadeRecording recording(data_);
    recording.MapProgram(7, kBias, program_);
    recording.Sample(7, Moved({{0x1120, 0x1180, Kind::kCall, 0}, {0x1250, 0x1100, Kind::kCall}}, kBias));
  }
  Load();
  const std::string csv = report::RenderCsv(Rows(*loaded_)), name = "\"" + program_ + "\",\"abcdef0102030405060708090a0b0c0d0e0f1011\",";
  EXPECT_THAT(csv, HasSubstr("\"branch\"," + name + "0x120,0x1120,\"f\"," + name + "0x180,0x1180,\"g\",\"call\",1,1,0,,\n"));
  EXPECT_THAT(csv, HasSubstr("\"range\"," + name + "0x100,0x1100,\"f\"," + name + "0x120,0x1120,\"f\",,1,,,,\n"));
}

}  // namespace
}  // namespace brink::exporter
