// Any text as a policy file, a baseline or an event to explain: an answer or an error, what was parsed means the same when
// it is written again, and nothing of it reaches a terminal raw.
#include <cstdlib>
#include <string>

#include "cfi/baseline.h"
#include "cfi/event_text.h"
#include "monitor/policy.h"

using namespace brink;
using namespace brink::cfi;

namespace {

void Raw(const std::string& text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'p') {
    auto policy = PolicyFile::Parse(text, "policy.yaml");
    if (!policy.ok()) return Raw(std::string(policy.status().message())), 0;
    for (const char* exe : {"/usr/sbin/old-server", "", "*"}) {
      const PolicyView view = policy->For({.exe = exe, .comm = "old", .container = "web", .pod = "", .uid = 33});
      for (const Suppression* suppression : view.suppress) (void)Suppresses(*suppression, Policy::kReturnSite, "libx.so:f", "libx.so:g");
    }
  } else if (data[0] == 'b') {
    auto baseline = Baseline::Parse(text);
    if (!baseline.ok()) return Raw(std::string(baseline.status().message())), 0;
    auto again = Baseline::Parse(baseline->Text());
    if (!again.ok() || again->Text() != baseline->Text() || again->edges() != baseline->edges()) std::abort();
  } else {
    auto words = Explain(text);
    Raw(words.ok() ? *words : std::string(words.status().message()));
  }
  return 0;
}
