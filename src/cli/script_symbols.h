// Names for `brink script`, from the symboliser.
#pragma once

#include <memory>

#include "perfdata/reader.h"
#include "script/script.h"

namespace brink::cli {

// `lines`: source positions, too (DWARF is read, which takes time). Lives as long as the reader.
std::unique_ptr<script::Symbols> MakeScriptSymbols(const perfdata::Reader& reader, bool lines);

}  // namespace brink::cli
