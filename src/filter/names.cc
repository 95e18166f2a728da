#include "filter/names.h"

#include <array>
#include <cerrno>
#include <span>

namespace brink::filter {
namespace {

struct Named {
  std::string_view name;
  uint64_t mask;
};

// Canonical names first; ValueName takes the first entry with exactly one bit.
constexpr Named kKinds[] = {
    {"unknown", 1},
    {"cond", KindBit(Kind::kCond)},
    {"jump", KindBit(Kind::kJump)},
    {"ind_jump", KindBit(Kind::kIndJump)},
    {"call", KindBit(Kind::kCall)},
    {"ind_call", KindBit(Kind::kIndCall)},
    {"ret", KindBit(Kind::kRet)},
    {"syscall", KindBit(Kind::kSyscall)},
    {"sysret", KindBit(Kind::kSysret)},
    {"irq", KindBit(Kind::kIrq)},
    {"eret", KindBit(Kind::kEret)},
    {"tx_abort", KindBit(Kind::kTxAbort)},
    {"any", kAllKinds},
    {"any_call", kAnyCall},
    {"any_ret", kAnyReturn},
    {"any_return", kAnyReturn},
    {"ind_jmp", KindBit(Kind::kIndJump)},
    {"uncond", KindBit(Kind::kJump)},
    {"return", KindBit(Kind::kRet)},
    {"abort_tx", KindBit(Kind::kTxAbort)},
};
constexpr Named kPrivs[] = {{"unknown", 1}, {"user", kPrivUser}, {"kernel", kPrivKernel}, {"hv", kPrivHv}, {"u", kPrivUser}, {"k", kPrivKernel}};
constexpr Named kSpecs[] = {{"unknown", 1}, {"wrong_path", 2}, {"non_spec", 4}, {"correct", 8}, {"na", 1}};
constexpr Named kBools[] = {{"unknown", 1}, {"false", 1u << kNo}, {"true", 1u << kYes}, {"no", 1u << kNo}, {"yes", 1u << kYes}, {"0", 1u << kNo}, {"1", 1u << kYes}};

std::span<const Named> Table(ValueType type) {
  switch (type) {
    case ValueType::kKind:
      return kKinds;
    case ValueType::kPriv:
      return kPrivs;
    case ValueType::kSpec:
      return kSpecs;
    case ValueType::kBool:
      return kBools;
    default:
      return {};
  }
}

struct ErrnoName {
  std::string_view name;
  int value;
};
#define E(name) {#name, name}
constexpr ErrnoName kErrnos[] = {
    E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(ENOEXEC), E(EBADF), E(ECHILD), E(EAGAIN), E(ENOMEM),
    E(EACCES), E(EFAULT), E(EBUSY), E(EEXIST), E(EXDEV), E(ENODEV), E(ENOTDIR), E(EISDIR), E(EINVAL), E(ENFILE), E(EMFILE),
    E(ENOTTY), E(ETXTBSY), E(EFBIG), E(ENOSPC), E(ESPIPE), E(EROFS), E(EMLINK), E(EPIPE), E(EDOM), E(ERANGE), E(EDEADLK),
    E(ENAMETOOLONG), E(ENOSYS), E(ENOTEMPTY), E(ELOOP), E(EWOULDBLOCK), E(ENODATA), E(ETIME), E(EPROTO), E(EOVERFLOW),
    E(EMSGSIZE), E(EOPNOTSUPP), E(ENOTSUP), E(EADDRINUSE), E(EADDRNOTAVAIL), E(ENETDOWN), E(ENETUNREACH), E(ECONNABORTED),
    E(ECONNRESET), E(ENOBUFS), E(EISCONN), E(ENOTCONN), E(ETIMEDOUT), E(ECONNREFUSED), E(EHOSTUNREACH), E(EALREADY),
    E(EINPROGRESS), E(ESTALE), E(EDQUOT), E(ECANCELED), E(EILSEQ)};
#undef E

}  // namespace

std::optional<uint64_t> ValueMask(ValueType type, std::string_view name) {
  for (const Named& named : Table(type)) {
    if (named.name == name) return named.mask;
  }
  return std::nullopt;
}

std::vector<std::string> ValueNames(ValueType type) {
  std::vector<std::string> names;
  for (const Named& named : Table(type)) names.emplace_back(named.name);
  return names;
}

std::string_view ValueName(ValueType type, uint64_t value) {
  for (const Named& named : Table(type)) {
    if (named.mask == uint64_t{1} << value) return named.name;
  }
  return "?";
}

std::string KindList(uint64_t mask, std::string_view separator) {
  std::string out;
  for (int i = 0; i < kKindCount; ++i) {
    if (!(mask >> i & 1)) continue;
    if (!out.empty()) out += separator;
    out += KindName(static_cast<Kind>(i));
  }
  return out;
}

std::optional<int> ErrnoByName(std::string_view name) {
  for (const ErrnoName& e : kErrnos) {
    if (e.name == name) return e.value;
  }
  return std::nullopt;
}

}  // namespace brink::filter
