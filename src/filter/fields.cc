#include <array>

#include "base/check.h"
#include "filter/expr.h"

namespace brink::filter {
namespace {

using enum ValueType;
constexpr std::array<FieldInfo, kFieldCount> kFields = {{
    {Field::kPid, "pid", kNumber, false, "process id (thread group)"},
    {Field::kTid, "tid", kNumber, false, "thread id"},
    {Field::kCpu, "cpu", kNumber, false, "CPU of the sample"},
    {Field::kUid, "uid", kNumber, false, "user id of the task"},
    {Field::kCgroup, "cgroup", kNumber, false, "cgroup id, or its path when compared with text"},
    {Field::kTime, "time", kDuration, false, "time of the sample on the monotonic clock, as perf script prints it"},
    {Field::kElapsed, "elapsed", kDuration, false, "time since the first sample of the recording"},
    {Field::kIp, "ip", kAddress, false, "address at which the sample hit"},
    {Field::kComm, "comm", kText, false, "name of the thread"},
    {Field::kCgroupPath, "cgroup.path", kText, false, "path of the cgroup"},
    {Field::kContainer, "container", kText, false, "container id or name"},
    {Field::kPod, "pod", kText, false, "namespace/name of the pod"},
    {Field::kFrom, "from", kAddress, true, "address of the branch"},
    {Field::kTo, "to", kAddress, true, "address of its target"},
    {Field::kKind, "kind", ValueType::kKind, true, "kind of the branch"},
    {Field::kFromPriv, "from.priv", kPriv, true, "privilege at the branch"},
    {Field::kToPriv, "priv", kPriv, true, "privilege at the target (also to.priv): what perf's u, k and hv mean"},
    {Field::kCrossPriv, "crossing priv", kBool, true, "branch and target differ in privilege"},
    {Field::kMispredicted, "mispredicted", kBool, true, "the target was mispredicted"},
    {Field::kCycles, "cycles", kNumber, true, "cycles since the previous record"},
    {Field::kInTx, "in_tx", kBool, true, "inside a transaction"},
    {Field::kAbort, "abort", kBool, true, "aborted a transaction"},
    {Field::kSpec, "spec", kSpec, true, "outcome of speculation: wrong_path, non_spec, correct"},
    {Field::kFromSymbol, "from.symbol", kText, true, "function of the branch"},
    {Field::kToSymbol, "to.symbol", kText, true, "function of the target"},
    {Field::kFromObject, "from.object", kText, true, "file of the branch: path, last part of it, or build-id"},
    {Field::kToObject, "to.object", kText, true, "file of the target"},
    {Field::kCrossFunction, "crossing function", kBool, true, "branch and target lie in different functions"},
    {Field::kCrossObject, "crossing object", kBool, true, "branch and target lie in different files"},
    {Field::kExternal, "args.*", kSigned, false, "arguments, return value and context of a probe (brink snap --if)"},
}};

}  // namespace

std::span<const FieldInfo> AllFields() { return kFields; }

const FieldInfo& Info(Field field) {
  const FieldInfo& info = kFields[static_cast<size_t>(field)];
  BRINK_CHECK(info.field == field);
  return info;
}

}  // namespace brink::filter
