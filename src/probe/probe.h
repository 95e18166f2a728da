// Makes the feature set by trying everything.
#pragma once

#include <vector>

#include "probe/feature.h"

namespace brink {

struct ProbeOptions {
  Overrides overrides;
  // Only these and what they need; empty: all. A command that needs two answers does not pay for forty.
  std::vector<Feature> only;
};

// Takes well under 3 s for all; loads and attaches BPF programs to this very process, and starts short-lived children:
// call it before threads, links and rings exist. Never fails: what cannot be tried is off with the reason.
FeatureSet ProbeFeatures(const ProbeOptions& options);

}  // namespace brink
