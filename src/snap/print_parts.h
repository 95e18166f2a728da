// Pieces of text and JSON that captures and traces have in common.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "snap/namer.h"

namespace brink::snap {

struct Capture;
struct PrintOptions;

// Colours, where they are wanted.
class Painter {
 public:
  explicit Painter(bool on) : on_(on) {}
  std::string Bold(const std::string& text) const { return Wrap("1", text); }
  std::string Red(const std::string& text) const { return Wrap("31", text); }
  std::string Dim(const std::string& text) const { return Wrap("2", text); }
  std::string Cyan(const std::string& text) const { return Wrap("36", text); }

 private:
  std::string Wrap(const char* code, const std::string& text) const { return on_ && !text.empty() ? std::string("\033[") + code + "m" + text + "\033[0m" : text; }
  bool on_;
};

// RFC 3339 with `date`, else the time of day.
std::string WallTime(uint64_t monotonic_ns, const PrintOptions& options, bool date);
// "main+0x10", "0x401000".
std::string PlaceText(const NamedAddress& at);
// The same with inlined functions, object and source line.
std::string WithObject(const NamedAddress& at, const Painter& paint);

// "-EACCES (-13)", "3".
std::string ResultText(int64_t value);
// "openat(dfd=..., filename="/etc/shadow")": the system call or the function, with the values that were taken.
std::string CallText(const Capture& capture);
// "ls pid 12 tid 12 (inside: pid 1 tid 1) cpu 0 [web]".
std::string TaskText(const Capture& capture);

nlohmann::ordered_json AddressJson(const NamedAddress& at);
// Text as JSON; what is no UTF-8 is replaced.
nlohmann::ordered_json JsonText(std::string_view text);

}  // namespace brink::snap
