#include "cli/interleave.h"

namespace brink::cli {

namespace {

StatusOr<std::vector<std::string>> Later(const CommandSpec& spec, const Parsed& parsed, std::vector<std::string>* outputs) {
  std::vector<std::string> words, rest = parsed.rest;
  if (parsed.after_dashes) return rest;
  while (!rest.empty()) {
    const std::string& word = rest.front();
    const bool option = word.size() > 1 && word[0] == '-' && word.find(' ') == std::string::npos;
    if (!option) {
      words.push_back(word);
      rest.erase(rest.begin());
      continue;
    }
    std::vector<std::string> argv = {spec.name};
    argv.insert(argv.end(), rest.begin(), rest.end());
    ASSIGN_OR_RETURN(Parsed more, ParseOptions(spec, argv));
    if (more.help) return InvalidArgument(std::string("--help stands alone: brink ") + spec.name + " --help");
    outputs->insert(outputs->end(), more.outputs.begin(), more.outputs.end());
    rest = std::move(more.rest);
    if (more.after_dashes) {
      words.insert(words.end(), rest.begin(), rest.end());
      break;
    }
  }
  return words;
}

}  // namespace

StatusOr<std::vector<std::string>> TakeLaterOptions(const CommandSpec& spec, const Parsed& parsed) {
  std::vector<std::string> outputs;
  return Later(spec, parsed, &outputs);
}

std::vector<std::string> AllOutputs(const CommandSpec& spec, const Parsed& parsed) {
  CommandSpec dry = spec;
  for (Option& option : dry.options) option.set = [](std::string_view) { return OkStatus(); };
  std::vector<std::string> outputs = parsed.outputs;
  (void)Later(dry, parsed, &outputs);  // what is wrong with the words is told when they are applied
  return outputs;
}

}  // namespace brink::cli
