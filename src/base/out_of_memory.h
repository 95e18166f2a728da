// What happens when the machine has no memory left.
#pragma once

namespace brink {

// From now on an allocation that fails ends the process with one line on stderr and `status`, as a kill would: what was
// attached goes with its descriptors, and a recording keeps every round that was flushed. A later call changes the status.
void EndWhenOutOfMemory(int status);

}  // namespace brink
