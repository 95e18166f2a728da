#include "base/stop.h"

#include <iterator>

namespace brink {
namespace {

struct Reason {
  std::string_view name, text;
};
constexpr Reason kReasons[] = {
    {"none", "not stated"},
    {"full", "as many branches as were asked for"},
    {"budget", "time or step budget of the walk used up"},
    {"throttled", "the CPU's budget for walks was used up"},
    {"syscall", "a system call comes next"},
    {"miss", "code that was not lifted yet"},
    {"unsupported", "an instruction that is not followed"},
    {"unknown-condition", "a branch depends on a value that is not known"},
    {"unknown-target", "an indirect branch to an unknown target"},
    {"unknown-store", "a store to an unknown address"},
    {"store-full", "more memory written than is kept"},
    {"fault", "memory that could not be read"},
    {"code-changed", "the code differs from what was lifted"},
    {"device-memory", "the process maps device memory"},
    {"translation-busy", "the mappings were being changed"},
    {"signal", "a signal changed the flow"},
    {"exit", "the thread ended"},
    {"not-user", "the sample hit the kernel"},
    {"sve", "an instruction on scalable vectors or matrices"},
};
static_assert(std::size(kReasons) == BRINK_STOP_MAX);

constexpr Reason kNoReason = {"?", "written by a newer brink"};

const Reason& ReasonOf(int stop) { return stop >= 0 && stop < BRINK_STOP_MAX ? kReasons[stop] : kNoReason; }

}  // namespace

std::string_view StopReasonName(int stop) { return ReasonOf(stop).name; }
std::string_view StopReasonText(int stop) { return ReasonOf(stop).text; }

}  // namespace brink
