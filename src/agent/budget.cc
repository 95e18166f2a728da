#include "agent/budget.h"

#include <linux/perf_event.h>

#include <algorithm>

namespace brink::agent {
namespace {

// Paused until use is this much below the budget, so that pauses are few and long rather than many and short.
constexpr double kResumeShare = 0.7;

std::string FilterName(uint64_t bits) {
  return std::string(bits & PERF_SAMPLE_BRANCH_KERNEL ? "k" : "") + (bits & PERF_SAMPLE_BRANCH_USER ? "u" : "");
}

}  // namespace

bool CpuGovernor::Update(uint64_t now_ns, uint64_t cpu_ns) {
  if (paused_ && !points_.empty()) paused_ns_ += now_ns - points_.back().now_ns;
  points_.push_back({now_ns, cpu_ns});
  // One point at or before the window's begin stays.
  while (points_.size() > 2 && points_[1].now_ns + kWindowNs <= now_ns) points_.pop_front();
  const uint64_t time = now_ns - points_.front().now_ns;
  percent_ = time ? 100.0 * static_cast<double>(cpu_ns - points_.front().cpu_ns) / static_cast<double>(time) : 0;
  if (max_percent_ <= 0 || time < kSettleNs) return paused_;
  if (!paused_ && percent_ > max_percent_) {
    paused_ = true;
    ++pauses_;
  } else if (paused_ && percent_ < kResumeShare * max_percent_) {
    paused_ = false;
  }
  return paused_;
}

bool RateBudget::Take(uint64_t now_ns) {
  if (rate_ == 0) return true;
  const double rate = static_cast<double>(rate_);
  if (last_ns_ && now_ns > last_ns_) tokens_ = std::min(rate, tokens_ + rate * static_cast<double>(now_ns - last_ns_) / 1e9);
  last_ns_ = std::max(last_ns_, now_ns);
  if (tokens_ < 1) {
    ++refused_;
    return false;
  }
  tokens_ -= 1;
  return true;
}

Status FilterArbiter::Acquire(uint64_t job, const std::string& client, uint64_t bits) {
  bits &= PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL;
  if (bits == 0) return OkStatus();
  for (const auto& [other, holder] : holders_) {
    if (holder.bits == bits) continue;
    return Aborted("busy: the CPUs' branch filter is '" + FilterName(holder.bits) + "', held by job " + std::to_string(other) + " of " + holder.client + "; this needs '" + FilterName(bits) +
                   "': stop that job, or ask for the same with --priv, or for no branches with --source none");
  }
  holders_[job] = {client, bits};
  return OkStatus();
}

std::string FilterArbiter::Held() const { return holders_.empty() ? "" : FilterName(holders_.begin()->second.bits); }

}  // namespace brink::agent
