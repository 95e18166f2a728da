#include "pipeline/writer_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <future>

#include "base/check.h"
#include "base/thread.h"

namespace brink {
namespace {

Status ApplyOptions(const WriterOptions& options) {
  if (options.cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(*options.cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      return ErrnoError(errno, "--writer-cpu " + std::to_string(*options.cpu) + ": the writer cannot run there");
    }
  }
  // Linux keeps nice values by thread, against POSIX; that is what is wanted here.
  if (options.nice && setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), *options.nice) != 0) {
    return ErrnoError(errno, "--writer-nice " + std::to_string(*options.nice));
  }
  return OkStatus();
}

}  // namespace

WriterThread::WriterThread(BufferPool& pool, Ledger& ledger, Consumer& consumer, const WriterOptions& options,
                           std::function<void()> on_failure)
    : pool_(pool), ledger_(ledger), consumer_(consumer), options_(options), on_failure_(std::move(on_failure)) {}

WriterThread::~WriterThread() { BRINK_CHECK(!thread_.joinable()); }

Status WriterThread::Start() {
  std::promise<Status> ready;
  std::future<Status> result = ready.get_future();
  ASSIGN_OR_RETURN(thread_, StartThread("the writer's thread", [this, &ready] {
    pthread_setname_np(pthread_self(), "brink-writer");
    Status status = ApplyOptions(options_);
    bool ok = status.ok();
    ready.set_value(std::move(status));
    if (ok) Run();
  }));
  Status status = result.get();
  if (!status.ok()) thread_.join();
  return status;
}

Status WriterThread::Join() {
  if (thread_.joinable()) thread_.join();
  return status();
}

Status WriterThread::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void WriterThread::Run() {
  while (true) {
    Parcel message = pool_.TakeDirty();
    if (message.buffer) {
      Take(*message.buffer);
      pool_.PutClean(std::move(message.buffer));
      continue;
    }
    if (message.control == Control::kStop) break;
    if (failed_) continue;
    Status status = message.control == Control::kRotate ? consumer_.Rotate() : consumer_.Flush();
    if (!status.ok()) Fail(status);
  }
  Status status = consumer_.Finish();
  if (!status.ok()) Fail(status);
}

void WriterThread::Take(const Buffer& buffer) {
  written_ = {};
  side_band_ = 0;
  bool sound = ForEachItem(buffer.bytes(), [this](const brink_rec_header& header, std::span<const std::byte> item) { TakeItem(header, item); });
  BRINK_CHECK(sound);  // the drain made these sizes
  Settled settled = consumer_.Settle();
  if (settled.lost.records) {
    ledger_.CountLost(LossCause::kWriter, settled.lost.records, settled.lost.bytes);
    written_.records -= settled.lost.records;
    written_.bytes -= settled.lost.bytes;
  }
  if (!settled.status.ok()) Fail(settled.status);
  ledger_.CountWritten(written_.records, written_.bytes);
  ledger_.CountSideBand(side_band_);
}

void WriterThread::TakeItem(const brink_rec_header& header, std::span<const std::byte> item) {
  Status status;
  switch (header.type) {
    case BRINK_REC_SAMPLE: {
      if (failed_) return ledger_.CountLost(LossCause::kWriter, 1, header.size);
      std::optional<SampleView> sample = ViewSample(item);
      if (!sample) return ledger_.CountLost(LossCause::kMalformed, 1, header.size);
      status = consumer_.OnSample(*sample);
      if (status.ok()) {
        written_ += {1, header.size};
      } else {
        ledger_.CountLost(LossCause::kWriter, 1, header.size);
      }
      break;
    }
    case kItemPerfRecord: {
      std::optional<PerfRecordView> record = ViewPerfRecord(item);
      if (!record || failed_) return ledger_.CountLost(LossCause::kSideBandBuffer, 1, header.size);
      status = consumer_.OnPerfRecord(*record);
      side_band_ += status.ok();
      break;
    }
    case BRINK_REC_TASK:
      if (!failed_) status = consumer_.OnTask(*reinterpret_cast<const brink_task_event*>(item.data()));
      break;
    case kItemRound:
      if (!failed_) status = consumer_.OnRound(reinterpret_cast<const RoundItem*>(item.data())->time_ns);
      break;
    case kItemLost: {
      const LostItem& lost = *reinterpret_cast<const LostItem*>(item.data());
      if (!failed_) status = consumer_.OnLost(static_cast<LossCause>(lost.cause), {lost.records, lost.bytes}, lost.time_ns);
      break;
    }
    default:
      BRINK_CHECK(false);
  }
  if (!status.ok()) Fail(status);
}

void WriterThread::Fail(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  if (!failed_) {
    failed_ = true;
    on_failure_();
  }
}

}  // namespace brink
