// What is made from the option tables besides --help: man pages, and completions for three shells.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/options.h"

namespace brink::cli {

// scdoc source of brink(1), which lists the commands.
std::string ManOverview(std::span<const CommandSpec* const> commands);

// A script for `shell` (bash, zsh or fish) that completes commands, their options and file names. INVALID_ARGUMENT for
// other shells.
StatusOr<std::string> CompletionScript(std::string_view shell, std::span<const CommandSpec* const> commands);

}  // namespace brink::cli
