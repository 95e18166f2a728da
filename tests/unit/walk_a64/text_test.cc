// Text of instructions against LLVM's: random words of every class that has text of its own.
#include "a64/text.h"

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "a64/encoding.h"
#include "disassembly.h"

namespace brink::walk_test {
namespace {

// Both ways to write numbers, addresses and space as one: numbers in decimal, modulo 2^64.
std::string Normal(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool inside = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_');
    const bool number = !inside && (std::isdigit(static_cast<unsigned char>(c)) || (c == '-' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]))));
    if (number) {
      char* end = nullptr;
      const uint64_t magnitude = std::strtoull(text.c_str() + i + (c == '-'), &end, 0);
      out += std::to_string(c == '-' ? 0 - magnitude : magnitude);
      i = static_cast<size_t>(end - text.c_str());
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (c != '#') {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    ++i;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Names that LLVM has for numbers: of system registers, of hints and prefetches of later versions.
bool NamedByNumber(const std::string& text) {
  return text.starts_with("hint #") || text.starts_with("mrs ") || text.starts_with("msr ") || (text.starts_with("prf") && text.find(" #") != text.npos);
}

TEST(A64Text, IsLlvmsForRandomWordsOfEveryClass) {
  std::mt19937 random(5);
  std::vector<uint32_t> words;
  std::vector<std::string> texts;
  const int each = std::getenv("BRINK_LONG") ? 20'000 : 600;
  size_t other = 0;
  const a64::Rows rows = a64::AllRows();
  for (const a64::Row* row = rows.begin; row != rows.end; ++row) {
    for (int i = 0; i < each; ++i) {
      const uint32_t word = (static_cast<uint32_t>(random()) & ~row->mask) | row->value;
      std::string text = a64::TextOf(word, 0);
      if (text.starts_with(".inst") || NamedByNumber(text)) {
        ++other;
        continue;
      }
      words.push_back(word);
      texts.push_back(std::move(text));
    }
  }
  auto theirs = Disassemble(words);
  if (!theirs) GTEST_SKIP() << "needs llvm-mc 19 (package llvm-19)";
  int complaints = 0;
  for (size_t i = 0; i < words.size() && complaints < 20; ++i) {
    const std::string wanted = (*theirs)[i].valid ? Normal((*theirs)[i].mnemonic + " " + (*theirs)[i].operands) : "(no instruction)";
    if (Normal(texts[i]) == wanted) continue;
    ++complaints;
    ADD_FAILURE() << std::hex << words[i] << ": " << texts[i] << ", LLVM: " << wanted;
  }
  std::cout << words.size() << " texts compared, " << other << " words are shown by number or class\n";
  EXPECT_GT(words.size(), static_cast<size_t>(each) * 20);
}

TEST(A64Text, TargetsAreAddresses) {
  EXPECT_EQ(a64::TextOf(0x97ffffc0, 0x401100), "bl 0x401000");
  EXPECT_EQ(a64::TextOf(0x54ffffc0, 0x401008), "b.eq 0x401000");
  EXPECT_EQ(a64::TextOf(0x90000108, 0x104e0), "adrp x8, 0x30000");
  EXPECT_EQ(a64::TextOf(0xd65f03c0, 0), "ret");
  EXPECT_EQ(a64::TextOf(0x4ea11c20, 0), std::string(".inst 0x4ea11c20 ; ") + a64::NameOf(a64::FormOf(0x4ea11c20)));
}

}  // namespace
}  // namespace brink::walk_test
