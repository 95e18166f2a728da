// `record --aggregate`: the stream of the recording goes to a thread that counts it, and only the counts are kept.
#pragma once

#include <memory>

#include "report/aggregate_collector.h"
#include "session/recorder.h"

namespace brink::cli {

// As Record(); the result's path and bytes are those of the aggregate file. A counting thread that falls behind fills
// the pipe, then the recorder's buffers: what is lost then is counted as in every recording.
StatusOr<RecordResult> RecordAggregate(RecordSpec spec, std::unique_ptr<StackSource> source, report::CollectOptions options);

}  // namespace brink::cli
