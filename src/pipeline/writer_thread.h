// The writer thread: takes dirty buffers, gives their items to the consumer, returns the buffers.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "base/status.h"
#include "base/sync.h"
#include "pipeline/consumer.h"
#include "pipeline/ledger.h"
#include "pipeline/pool.h"

namespace brink {

struct WriterOptions {
  std::optional<int> cpu;   // pin the thread
  std::optional<int> nice;  // its own nice value
};

class WriterThread {
 public:
  // All outlive the thread. `on_failure` is called once, from the thread, at the consumer's first error.
  WriterThread(BufferPool& pool, Ledger& ledger, Consumer& consumer, const WriterOptions& options,
               std::function<void()> on_failure);
  ~WriterThread();

  // The error says which option could not be had.
  Status Start();
  // After the stop token is on its way. The consumer's first error, or that of Finish.
  Status Join();
  // The consumer's first error so far.
  Status status() const;

 private:
  void Run();
  void Take(const Buffer& buffer);
  void TakeItem(const brink_rec_header& header, std::span<const std::byte> item);
  void Fail(const Status& status);

  BufferPool& pool_;
  Ledger& ledger_;
  Consumer& consumer_;
  WriterOptions options_;
  std::function<void()> on_failure_;
  std::thread thread_;
  bool failed_ = false;  // writer thread
  Loss written_;         // writer thread: of the buffer at hand
  uint64_t side_band_ = 0;

  mutable Mutex mutex_;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brink
