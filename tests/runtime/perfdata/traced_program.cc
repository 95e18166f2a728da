#include "traced_program.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/branch.h"
#include "base/strings.h"
#include "support/process.h"

namespace brink::perfdata {
namespace {

using testing_support::Run;

struct Instruction {
  uint64_t length = 0;
  bool branch = false;
  bool call = false, ret = false, conditional = false, direct = false;
};

// By link-time address.
std::map<uint64_t, Instruction> Disassemble(const std::string& path) {
  std::map<uint64_t, Instruction> out;
  std::istringstream lines(Run({"objdump", "-d", "-w", path}).out);
  std::string line;
  while (std::getline(lines, line)) {
    auto parts = Split(line, '\t');
    if (parts.size() < 3) continue;
    Instruction instruction;
    uint64_t address = std::strtoull(std::string(Trim(parts[0])).c_str(), nullptr, 16);
    for (std::string_view byte : Split(Trim(parts[1]), ' ')) instruction.length += !byte.empty();
    std::string_view text = Trim(parts[2]);
    std::string_view word = text.substr(0, text.find(' '));
    instruction.call = word.starts_with("call");
    instruction.ret = word.starts_with("ret");
    instruction.conditional = word[0] == 'j' && !word.starts_with("jmp");
    instruction.branch = word[0] == 'j' || instruction.call || instruction.ret;
    instruction.direct = text.find('*') == std::string_view::npos;
    out[address] = instruction;
  }
  return out;
}

Kind KindOf(const Instruction& i) {
  if (i.ret) return Kind::kRet;
  if (i.call) return i.direct ? Kind::kCall : Kind::kIndCall;
  if (i.conditional) return Kind::kCond;
  return i.direct ? Kind::kJump : Kind::kIndJump;
}

std::vector<TracedMapping> MappingsOf(pid_t pid, const std::string& path) {
  std::vector<TracedMapping> out;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long start, end, offset;
    char perms[5], name[4096] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %4095s", &start, &end, perms, &offset, name) < 4) continue;
    if (perms[2] == 'x' && path == name) out.push_back({start, end - start, offset});
  }
  return out;
}

// Difference between run-time and link-time addresses: the executable segment is found by its file offset.
uint64_t BiasOf(const std::string& path, const TracedMapping& mapping) {
  std::istringstream lines(Run({"readelf", "-lW", path}).out);
  std::string line;
  while (std::getline(lines, line)) {
    unsigned long offset, vaddr;
    char flags[16] = "";
    if (std::sscanf(line.c_str(), " LOAD 0x%lx 0x%lx %*s %*s %*s R E %15s", &offset, &vaddr, flags) < 2 || line.find(" R E ") == std::string::npos) continue;
    return mapping.start - mapping.pgoff - (vaddr - offset);
  }
  return 0;
}

}  // namespace

bool CompileProgram(const std::string& source, const std::string& flags, const std::string& path) {
  std::ofstream(path + ".c") << source;
  for (const char* compiler : {"clang-19", "gcc"}) {
    if (Run({"sh", "-c", std::string(compiler) + " " + flags + " -o " + path + " " + path + ".c"}).status == 0) return true;
  }
  return false;
}

std::optional<TracedProgram> TraceProgram(const std::string& path, size_t max_steps) {
  const auto code = Disassemble(path);
  if (code.empty()) return std::nullopt;
  pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
    execl(path.c_str(), path.c_str(), static_cast<char*>(nullptr));
    _exit(98);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return std::nullopt;
  TracedProgram out{.path = path, .pid = static_cast<uint32_t>(pid), .mappings = MappingsOf(pid, path), .bias = 0, .branches = {}};
  if (out.mappings.empty()) {
    ptrace(PTRACE_KILL, pid, nullptr, nullptr);
    waitpid(pid, &status, 0);
    return std::nullopt;
  }
  const uint64_t bias = out.bias = BiasOf(path, out.mappings[0]);
  const Instruction* last = nullptr;
  uint64_t last_address = 0;
  for (size_t step = 0; step < max_steps; ++step) {
    user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, nullptr, &regs) != 0) break;
    auto found = code.find(regs.rip - bias);
    if (last && last->branch && regs.rip != last_address + last->length && found != code.end()) {
      out.branches.push_back({last_address, regs.rip, MakeInfo(KindOf(*last))});
    }
    last = found == code.end() ? nullptr : &found->second;
    last_address = regs.rip;
    if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return out;
  }
  ptrace(PTRACE_KILL, pid, nullptr, nullptr);
  waitpid(pid, &status, 0);
  return out;
}

}  // namespace brink::perfdata
