#include "latency/result.h"

namespace brink::latency {

LogHistogram Total(const Result& result) {
  LogHistogram total;
  for (const ThreadResult& thread : result.threads) total.Merge(thread.values);
  return total;
}

LogHistogram TotalCorrected(const Result& result) {
  LogHistogram total;
  for (const ThreadResult& thread : result.threads) total.Merge(thread.Corrected());
  return total;
}

}  // namespace brink::latency
