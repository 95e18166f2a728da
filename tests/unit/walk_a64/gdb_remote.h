// A program of this architecture under QEMU's user emulation, driven instruction by instruction through its debug stub.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "walk/host_walker.h"

namespace brink::walk_test {

class GdbRemote {
 public:
  // Starts `program` with its arguments, stopped at its first instruction. Nothing where the emulator is not installed.
  static std::unique_ptr<GdbRemote> Start(const std::vector<std::string>& command, const std::string& sysroot);
  ~GdbRemote();
  GdbRemote(const GdbRemote&) = delete;
  GdbRemote& operator=(const GdbRemote&) = delete;

  bool ReadRegisters(walk::A64Registers* out, bool vectors);
  // False: not all of it is mapped.
  bool ReadMemory(uint64_t address, void* to, size_t size);
  // Executes one instruction; its address, where asked for. False: the program has ended.
  bool Step(uint64_t* address = nullptr);
  // Runs on at full speed until `address` comes next. False: it has ended before.
  bool RunTo(uint64_t address);
  // Address of the next instruction.
  uint64_t pc();

 private:
  GdbRemote(pid_t child, int fd) : child_(child), fd_(fd) {}
  bool Write(const std::string& text);
  bool Receive(std::string* packet);
  bool Ask(const std::string& packet, std::string* answer);
  void FindThreadBase();

  pid_t child_;
  int fd_;
  std::string buffer_;
  int thread_base_ = -1;  // number of TPIDR_EL0
};

}  // namespace brink::walk_test
