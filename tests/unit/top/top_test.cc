// Keys, painting, and what keys do to the view: without a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "top/keys.h"
#include "top/terminal.h"
#include "top/view.h"

namespace brink::top {
namespace {

using report::Format;
using report::Table;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(KeyReader, KnowsKeysInBothSpellingsOfTerminals) {
  KeyReader keys;
  EXPECT_THAT(keys.Feed("a\033[A\033OB\033[5~\033[6~\033[H\033[4~\r\t\033[Z\x7f\x03"),
              ElementsAre(Key{KeyCode::kChar, 'a'}, Key{KeyCode::kUp}, Key{KeyCode::kDown}, Key{KeyCode::kPageUp}, Key{KeyCode::kPageDown}, Key{KeyCode::kHome},
                          Key{KeyCode::kEnd}, Key{KeyCode::kEnter}, Key{KeyCode::kTab}, Key{KeyCode::kBackTab}, Key{KeyCode::kBackspace}, Key{KeyCode::kInterrupt}));
}

TEST(KeyReader, SequencesMayComeInPieces) {
  KeyReader keys;
  EXPECT_THAT(keys.Feed("\033"), IsEmpty());
  EXPECT_TRUE(keys.pending());
  EXPECT_THAT(keys.Feed("["), IsEmpty());
  EXPECT_THAT(keys.Feed("A"), ElementsAre(Key{KeyCode::kUp}));
  EXPECT_FALSE(keys.pending());
}

TEST(KeyReader, ALoneEscapeIsAKeyOnceNothingFollows) {
  KeyReader keys;
  EXPECT_THAT(keys.Feed("\033"), IsEmpty());
  EXPECT_THAT(keys.Idle(), ElementsAre(Key{KeyCode::kEscape}));
  EXPECT_THAT(keys.Idle(), IsEmpty());
}

TEST(KeyReader, RubbishIsDroppedAndBounded) {
  KeyReader keys;
  EXPECT_THAT(keys.Feed("\033[1;5Q\x01\xc3\xa4q"), ElementsAre(Key{KeyCode::kChar, 'q'}));
  EXPECT_THAT(keys.Feed("\033[" + std::string(1000, '1')), IsEmpty());
  EXPECT_FALSE(keys.pending());
}

TEST(Painter, DrawsOnlyWhatChanged) {
  Painter painter;
  const std::string first = painter.Paint({{"one"}, {"two", Style::kBold}}, 3, 10);
  EXPECT_THAT(first, HasSubstr("\033[2J"));
  EXPECT_THAT(first, HasSubstr("\033[1;1Hone"));
  EXPECT_THAT(first, HasSubstr("\033[2;1H\033[1mtwo\033[0m"));
  EXPECT_EQ(painter.Paint({{"one"}, {"two", Style::kBold}}, 3, 10), "");
  EXPECT_EQ(painter.Paint({{"one"}, {"three"}}, 3, 10), "\033[2;1Hthree\033[K");
  // Another size: everything again.
  EXPECT_THAT(painter.Paint({{"one"}, {"three"}}, 4, 10), HasSubstr("\033[2J"));
}

TEST(Painter, CutsByCharactersNotBytes) {
  Painter painter;
  EXPECT_THAT(painter.Paint({{"\xc3\xa4\xc3\xb6\xc3\xbcxyz"}}, 1, 4), HasSubstr("\033[1;1H\xc3\xa4\xc3\xb6\xc3\xbcx\033[K"));
}

class FakeModel : public Model {
 public:
  Table TableOf(const report::TableKind& kind) override {
    asked = kind.name;
    Table table{.name = kind.name};
    if (kind.name == std::string("functions")) {
      table.columns = {{"share", "SHARE", Format::kPercent}, {"branches", "BRANCHES", Format::kCount}, {"function", "FUNCTION"}, {"object", "OBJECT"}};
      for (uint64_t i = 0; i < rows; ++i) table.rows.push_back({static_cast<double>(rows - i) / 1000, rows - i, "function" + std::to_string(i), std::string(i % 2 ? "odd" : "even")});
    } else {
      table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount}, {"from", "FROM"}, {"to", "TO"}, {"from_address", "ADDRESS", Format::kAddress, false},
                       {"to_address", "ADDRESS", Format::kAddress, false}};
      table.rows.push_back({0.5, uint64_t{7}, std::string("main+0x1c"), std::string("puts"), uint64_t{1}, uint64_t{2}});
    }
    return table;
  }
  StatusOr<std::vector<std::string>> Annotate(const std::string& function) override {
    annotated = function;
    if (function == "function1") return NotFound("no code");
    return std::vector<std::string>{"code of " + function};
  }
  uint64_t rows = 100;
  std::string asked, annotated;
};

class ViewTest : public testing::Test {
 protected:
  std::vector<Line> Draw() { return view.Draw({.source = "all CPUs", .samples = 1234567, .branches = 89, .lost = 3}, 20, 80); }
  std::string Selected() {
    for (const Line& line : Draw()) {
      if (line.style == Style::kReverse) return line.text;
    }
    return "";
  }
  Wishes Press(char c) { return view.OnKey({KeyCode::kChar, c}); }
  FakeModel model;
  View view{&model};
};

TEST_F(ViewTest, FirstLineSaysWhatIsRecordedAndLost) {
  auto lines = Draw();
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_THAT(lines[0].text, HasSubstr("all CPUs  1,234,567 samples"));
  EXPECT_THAT(lines[0].text, HasSubstr("LOST 3"));
  EXPECT_THAT(lines[1].text, HasSubstr("[1 functions]"));
}

TEST_F(ViewTest, SelectionMovesAndScrolls) {
  EXPECT_THAT(Selected(), HasSubstr("function0 "));
  Press('j');
  EXPECT_THAT(Selected(), HasSubstr("function1 "));
  view.OnKey({KeyCode::kEnd});
  EXPECT_THAT(Selected(), HasSubstr("function99 "));
  view.OnKey({KeyCode::kDown});
  EXPECT_THAT(Selected(), HasSubstr("function99 "));
  view.OnKey({KeyCode::kHome});
  EXPECT_THAT(Selected(), HasSubstr("function0 "));
  view.OnKey({KeyCode::kPageDown});
  // 20 lines less state, tables, headings and keys.
  EXPECT_THAT(Selected(), HasSubstr("function16 "));
}

TEST_F(ViewTest, TablesByNumberAndTab) {
  Press('2');
  Draw();
  EXPECT_EQ(model.asked, "branches");
  view.OnKey({KeyCode::kTab});
  Draw();
  EXPECT_EQ(model.asked, "edges");
  view.OnKey({KeyCode::kBackTab});
  Draw();
  EXPECT_EQ(model.asked, "branches");
}

TEST_F(ViewTest, OrderByAnotherColumnAndBack) {
  Press('>');
  Press('>');
  Press('>');  // function, text rises
  Draw();
  EXPECT_THAT(Draw()[2].text, HasSubstr("FUNCTION*"));
  EXPECT_THAT(Selected(), HasSubstr("function0 "));
  Press('r');
  EXPECT_THAT(Draw()[3].text, HasSubstr("function99 "));
}

TEST_F(ViewTest, FilterShowsMatchingRowsOnly) {
  Press('/');
  for (char c : std::string("odx")) Press(c);
  view.OnKey({KeyCode::kBackspace});
  Press('d');
  EXPECT_THAT(Draw().back().text, HasSubstr("odd"));
  view.OnKey({KeyCode::kEnter});
  EXPECT_THAT(Selected(), HasSubstr("function1 "));
  view.OnKey({KeyCode::kEscape});
  EXPECT_THAT(Selected(), HasSubstr("function0 "));
}

TEST_F(ViewTest, EnterOpensTheFunctionAndEscapeComesBack) {
  view.OnKey({KeyCode::kEnter});
  EXPECT_EQ(model.annotated, "function0");
  EXPECT_EQ(Draw()[2].text, "code of function0");
  view.OnKey({KeyCode::kEscape});
  EXPECT_THAT(Draw()[2].text, HasSubstr("SHARE"));
  Press('j');
  view.OnKey({KeyCode::kEnter});
  EXPECT_THAT(Draw().back().text, HasSubstr("no code"));
  // A branch's place is cut down to its function.
  Press('2');
  view.OnKey({KeyCode::kEnter});
  EXPECT_EQ(model.annotated, "main");
}

TEST_F(ViewTest, WishesReachTheOwner) {
  EXPECT_TRUE(Press('z').reset);
  EXPECT_FALSE(view.paused());
  Press(' ');
  EXPECT_TRUE(view.paused());
  EXPECT_THAT(Draw()[0].text, HasSubstr("[held]"));
  EXPECT_TRUE(Press('i').reset);
  EXPECT_TRUE(view.per_interval());
  EXPECT_TRUE(Press('q').quit);
  EXPECT_TRUE(view.OnKey({KeyCode::kInterrupt}).quit);
}

TEST_F(ViewTest, TinyAndEmptyScreensAreNoTrouble) {
  for (size_t rows : {0u, 1u, 2u, 3u, 5u}) {
    for (size_t columns : {0u, 1u, 10u}) view.Draw({}, rows, columns);
  }
  model.rows = 0;
  view.OnSnapshot();
  EXPECT_THAT(Draw()[3].text, HasSubstr("(no rows)"));
  view.OnKey({KeyCode::kEnter});
  view.OnKey({KeyCode::kDown});
  for (const Line& line : Draw()) EXPECT_THAT(line.text, Not(HasSubstr("function0")));
}

TEST_F(ViewTest, HelpNamesEveryKey) {
  Press('?');
  std::string all;
  for (const Line& line : Draw()) all += line.text + "\n";
  for (const char* word : {"Tab", "PgUp", "Enter", "<", "/", " i ", " z ", "Space", " q "}) EXPECT_THAT(" " + all, HasSubstr(word + (word[0] == ' ' ? 1 : 0)));
  Press('q');  // closes the page, not the program
  EXPECT_THAT(Draw()[2].text, HasSubstr("SHARE"));
}

}  // namespace
}  // namespace brink::top
