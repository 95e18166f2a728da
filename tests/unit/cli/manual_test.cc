// Man pages, completions and the documents say what the option tables say.
#include "cli/manual.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/commands.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::cli {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::TempDir;

class Manual : public testing::Test {
 protected:
  Manual() {
    for (const CommandEntry& entry : AllCommands()) {
      commands_.push_back(entry.make());
      specs_.push_back(&commands_.back()->spec());
    }
  }
  // "-F", "--freq" of what --help shows.
  static std::set<std::string> Shown(const CommandSpec& spec, bool hidden = false) {
    std::set<std::string> out;
    for (const Option& option : spec.options) {
      if (option.hidden != hidden) continue;
      if (option.letter) out.insert(std::string("-") + option.letter);
      if (option.name) out.insert(std::string("--") + option.name);
    }
    return out;
  }
  const CommandSpec* Find(const std::string& name) const {
    for (const CommandSpec* spec : specs_) {
      if (name == spec->name) return spec;
    }
    return nullptr;
  }
  std::string Script(const std::string& shell) const { return CompletionScript(shell, specs_).value_or(""); }
  static bool Has(const std::string& program) { return testing_support::Run({"sh", "-c", "command -v " + program}).status == 0; }

  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<const CommandSpec*> specs_;
};

TEST_F(Manual, EveryPageIsAcceptedAndNamesEveryOption) {
  if (!Has("scdoc")) GTEST_SKIP() << "needs scdoc";
  for (const CommandSpec* spec : specs_) {
    auto page = testing_support::Run({"scdoc"}, {.stdin_text = ManSource(*spec)});
    ASSERT_EQ(page.status, 0) << spec->name << ": " << page.err;
    std::string text = std::regex_replace(page.out, std::regex(R"(\\-|\\&)"), "-");
    for (const std::string& word : Shown(*spec)) EXPECT_THAT(text, HasSubstr(word)) << spec->name;
  }
  auto overview = testing_support::Run({"scdoc"}, {.stdin_text = ManOverview(specs_)});
  ASSERT_EQ(overview.status, 0) << overview.err;
  for (const CommandSpec* spec : specs_) EXPECT_THAT(overview.out, HasSubstr(spec->name));
}

TEST_F(Manual, BashCompletesExactlyTheTable) {
  TempDir dir;
  std::ofstream(dir.File("script")) << Script("bash");
  std::string ask = "source " + dir.File("script") + "\nask() { COMP_WORDS=(brink \"$@\"); COMP_CWORD=$#; _brink; echo \"${COMPREPLY[@]}\"; }\n";
  for (const CommandSpec* spec : specs_) ask += std::string("ask ") + spec->name + " -\n";
  ask += "ask rec\nask record -- -\nask help scr\n";
  auto run = testing_support::Run({"bash", "-c", ask});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  auto lines = Split(run.out, '\n');
  ASSERT_GE(lines.size(), specs_.size() + 3);
  for (size_t i = 0; i < specs_.size(); ++i) {
    std::set<std::string> offered, expected = Shown(*specs_[i]);
    for (std::string_view word : Split(lines[i], ' ')) offered.emplace(word);
    expected.insert("--help");
    EXPECT_EQ(offered, expected) << specs_[i]->name;
  }
  EXPECT_EQ(lines[specs_.size()], "record");
  EXPECT_EQ(lines[specs_.size() + 1].find("--freq"), std::string_view::npos) << "behind -- the words are the command's";
  EXPECT_EQ(lines[specs_.size() + 2], "script");
}

TEST_F(Manual, ZshAndFishScriptsHoldTheTableAndParse) {
  for (const CommandSpec* spec : specs_) {
    for (const Option& option : spec->options) {
      if (!option.name) continue;
      std::string zsh = std::string("'*--") + option.name, fish = std::string(" -l ") + option.name + " ";
      if (option.hidden) continue;
      EXPECT_THAT(Script("zsh"), HasSubstr(zsh));
      EXPECT_THAT(Script("fish"), HasSubstr(fish));
    }
  }
  EXPECT_THAT(Script("zsh"), testing::Not(HasSubstr("--replay-count")));
  EXPECT_THAT(Script("fish"), testing::Not(HasSubstr("replay-count")));
  EXPECT_FALSE(CompletionScript("tcsh", specs_).ok());
  TempDir dir;
  for (const char* shell : {"zsh", "fish"}) {
    if (!Has(shell)) continue;
    std::ofstream(dir.File(shell)) << Script(shell);
    auto run = testing_support::Run({shell, "-n", dir.File(shell)});
    EXPECT_EQ(run.status, 0) << run.err;
  }
}

// `brink NAME --option` in the documents and in the examples of --help.
TEST_F(Manual, DocumentsUseOnlyOptionsThatExist) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::filesystem::path> files = {testing_support::SourceDir() + "/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(testing_support::SourceDir() + "/docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  for (const auto& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.emplace_back(file.filename(), line);
  }
  for (const CommandSpec* spec : specs_) {
    for (const Example& example : spec->examples) lines.emplace_back(std::string(spec->name) + " --help", example.command);
  }
  // Up to what ends a command: a pipe, a comment, the end of quoted code, another program's words.
  const std::regex use(R"(\bbrink ([a-z]+)((?: (?!--(?: |$))[^|`#;&]*)?))"), word(R"( (--[a-z][a-z0-9-]*))");
  int checked = 0;
  for (const auto& [where, line] : lines) {
    for (std::sregex_iterator match(line.begin(), line.end(), use), end; match != end; ++match) {
      const CommandSpec* spec = Find((*match)[1]);
      if (!spec) continue;
      std::string words = (*match)[2];
      words = words.substr(0, words.find(" -- "));
      std::set<std::string> known = Shown(*spec), hidden = Shown(*spec, true);
      known.insert(hidden.begin(), hidden.end());
      known.insert("--help");
      // What it hands on is of these.
      for (const char* other : {"record", "snap"}) {
        if (std::string_view(spec->name) == "ctl") known.merge(Shown(*Find(other)));
      }
      for (std::sregex_iterator option(words.begin(), words.end(), word); option != end; ++option) {
        EXPECT_TRUE(known.contains((*option)[1])) << where << ": " << line << ": no option " << (*option)[1];
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace brink::cli
