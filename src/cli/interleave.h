// For commands with a verb (`brink filter explain EXPR --json`): options may stand behind the verb and its words.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace brink::cli {

// Takes the options out of `parsed.rest`, applies them, and returns the other words. A word that begins with '-' and
// holds a blank ('-j any,u' quoted as one expression) is no option; behind "--" nothing is.
StatusOr<std::vector<std::string>> TakeLaterOptions(const CommandSpec& spec, const Parsed& parsed);

// `parsed.outputs` and those of options behind the words, without applying anything.
std::vector<std::string> AllOutputs(const CommandSpec& spec, const Parsed& parsed);

}  // namespace brink::cli
