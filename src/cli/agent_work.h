// From the words of a client of the agent to recordings and snap runs, by the tables of options of those commands.
#pragma once

#include "agent/job.h"

namespace brink::cli {

agent::Factories AgentFactories();

}  // namespace brink::cli
