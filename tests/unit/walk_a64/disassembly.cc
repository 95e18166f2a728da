#include "disassembly.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace brink::walk_test {
namespace {

std::string FindProgram() {
  for (const char* path : {"/usr/bin/llvm-mc-19", "/usr/lib/llvm-19/bin/llvm-mc"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return "";
}

// Calls `each` with the kind's letter and the number of every register name in the text.
template <typename Each>
void ForRegisters(const std::string& text, Each each) {
  auto word = [&](size_t at) { return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_'); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!std::isalpha(static_cast<unsigned char>(text[i])) || (i > 0 && (word(i - 1) || text[i - 1] == '.' || text[i - 1] == '#'))) continue;
    if (text.compare(i, 2, "sp") == 0 && !word(i + 2)) each('x', 31);
    if (text.compare(i, 3, "wsp") == 0 && !word(i + 3)) each('x', 31);
    size_t end = i + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > i + 1 && !word(end)) each(text[i], std::atoi(text.c_str() + i + 1));
  }
}

bool IsVector(char kind) { return kind == 'v' || kind == 'q' || kind == 'd' || kind == 's' || kind == 'h' || kind == 'b'; }

}  // namespace

std::optional<std::vector<Disassembled>> Disassemble(std::span<const uint32_t> words) {
  const std::string program = FindProgram();
  char folder[] = "/tmp/a64_words_XXXXXX";
  if (program.empty() || ::mkdtemp(folder) == nullptr) return std::nullopt;
  const std::string in = std::string(folder) + "/in", out = std::string(folder) + "/out", errors = std::string(folder) + "/errors";
  {
    std::ofstream file(in);
    char line[32];
    for (uint32_t word : words) {
      std::snprintf(line, sizeof line, "0x%02x 0x%02x 0x%02x 0x%02x\n", word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff, word >> 24);
      file << line;
    }
  }
  const std::string command = program + " --disassemble --triple=aarch64 -mattr=+all " + in + " > " + out + " 2> " + errors;
  const int status = std::system(command.c_str());
  std::vector<Disassembled> result(words.size(), Disassembled{.valid = true});
  // What is no instruction is told by line.
  std::ifstream complaints(errors);
  for (std::string line; std::getline(complaints, line);) {
    if (line.find("invalid instruction encoding") == std::string::npos) continue;
    const size_t at = line.compare(0, in.size(), in) == 0 ? in.size() + 1 : line.find(':') + 1;
    const size_t number = std::strtoul(line.c_str() + at, nullptr, 10);
    if (number >= 1 && number <= result.size()) result[number - 1].valid = false;
  }
  std::ifstream text(out);
  size_t next = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] != '\t' || line.compare(0, 2, "\t.") == 0) continue;
    while (next < result.size() && !result[next].valid) ++next;
    if (next == result.size()) break;
    std::istringstream fields(line);
    fields >> result[next].mnemonic;
    std::getline(fields, result[next].operands);
    if (const size_t comment = result[next].operands.find("//"); comment != std::string::npos) result[next].operands.resize(comment);
    ++next;
  }
  while (next < result.size() && !result[next].valid) ++next;
  for (const std::string& file : {in, out, errors}) ::unlink(file.c_str());
  ::rmdir(folder);
  if ((status != 0 && !WIFEXITED(status)) || next != result.size()) return std::nullopt;
  return result;
}

std::set<int> GeneralRegisters(const std::string& operands) {
  std::set<int> registers;
  ForRegisters(operands, [&](char kind, int n) {
    if ((kind == 'x' || kind == 'w') && n <= 31) registers.insert(n);
  });
  return registers;
}

int FirstVector(const std::string& operands) {
  int first = -1;
  ForRegisters(operands, [&](char kind, int n) {
    if (first < 0 && IsVector(kind)) first = n;
  });
  return first;
}

std::set<int> VectorRegisters(const std::string& operands) {
  std::set<int> registers;
  ForRegisters(operands, [&](char kind, int n) {
    if (IsVector(kind)) registers.insert(n);
  });
  return registers;
}

std::optional<int64_t> LastImmediate(const std::string& operands) {
  const size_t at = operands.rfind('#');
  if (at == std::string::npos) return std::nullopt;
  return std::strtoll(operands.c_str() + at + 1, nullptr, 0);
}

}  // namespace brink::walk_test
