// Between a Program and the aggregate file's counts.
#pragma once

#include <string>
#include <string_view>

#include "aggregate/data.h"
#include "report/program.h"

namespace brink::report {

// Name of the count (among the rules) of executions in rows that a bounded collector dropped.
inline constexpr std::string_view kRareDropped = "rare_dropped";

// Adds the counts of one aggregation to a population. What lies in anonymous code or outside of every mapping keeps its
// counts and loses its place; straight ranges there are dropped and counted.
void AddToData(const Aggregate& aggregate, const symbol::ObjectTable& objects, const std::string& population, aggregate::Data* data);
// Everything a recording's Program holds, as one population named after its source.
aggregate::Data ToData(const Program& program);

// The counts as a Program: all populations that --comm, --pid and the like cannot choose from any more, summed up.
// Tables made of whole stacks (loops, paths, stops) are empty.
void FromData(const aggregate::Data& data, Program* program);

// "walk", "lbr", ...: of most samples.
std::string SourceOf(const Aggregate& aggregate);

}  // namespace brink::report
