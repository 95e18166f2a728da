#include "cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Fixture {
  std::string json = "none";
  uint64_t freq = 0;
  std::string affinity = "none";
  CommandSpec spec{.name = "record", .summary = "s", .usage = "u"};
  Fixture() {
    spec.options = {
        {.name = "json", .value = Value::kOptional, .meta = "FILE", .set = StoreString(&json)},
        {.letter = 'F', .name = "freq", .value = Value::kRequired, .meta = "HZ", .set = StoreUint(&freq, 1, 100000)},
        {.letter = 'a', .value = Value::kOptional, .meta = "CPUS", .set = StoreString(&affinity), .peek = true},
    };
  }
  StatusOr<Parsed> Parse(std::vector<std::string> words) {
    words.insert(words.begin(), "record");
    return ParseOptions(spec, words);
  }
};

TEST(ParseOptions, LeavesTheCommandsOwnOptionsAlone) {
  Fixture f;
  auto parsed = f.Parse({"-F", "99", "--", "ls", "-l", "--json"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT(parsed->rest, ElementsAre("ls", "-l", "--json"));
  EXPECT_TRUE(parsed->after_dashes);
  EXPECT_EQ(f.freq, 99u);
  EXPECT_EQ(f.json, "none");
}

TEST(ParseOptions, ABareOptionalValueTakesNoWord) {
  Fixture f;
  auto parsed = f.Parse({"--json", "ls", "-l"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(f.json, "");
  EXPECT_THAT(parsed->rest, ElementsAre("ls", "-l"));
  EXPECT_FALSE(parsed->after_dashes);
}

TEST(ParseOptions, PeekTakesTheNextWordThatIsNoOption) {
  Fixture f;
  ASSERT_TRUE(f.Parse({"-a", "3", "-F", "5"}).ok());
  EXPECT_EQ(f.affinity, "3");
  EXPECT_EQ(f.freq, 5u);
  ASSERT_TRUE(f.Parse({"-a", "-F", "6"}).ok());
  EXPECT_EQ(f.affinity, "");
}

TEST(ParseOptions, RefusesAbbreviationsAndTyposWithASuggestion) {
  Fixture f;
  for (const char* word : {"--jso", "--fre=3", "--jsno"}) {
    auto parsed = f.Parse({word});
    ASSERT_FALSE(parsed.ok()) << word;
    EXPECT_THAT(std::string(parsed.status().message().data(), parsed.status().message().size()), HasSubstr("did you mean")) << word;
  }
}

TEST(ParseOptions, NamesTheOptionInValueErrors) {
  Fixture f;
  EXPECT_THAT(Message(f.Parse({"-F", "0"}).status()), HasSubstr("--freq: 0 is not within 1..100000"));
  EXPECT_THAT(Message(f.Parse({"-F"}).status()), HasSubstr("needs a value"));
}

TEST(HelpText, ListsEveryOptionWithItsValue) {
  Fixture f;
  EXPECT_THAT(HelpText(f.spec), HasSubstr("-F, --freq=HZ"));
  EXPECT_THAT(HelpText(f.spec), HasSubstr("--json[=FILE]"));
}

}  // namespace
}  // namespace brink::cli
