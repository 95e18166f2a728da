#include <cstdio>

#include "cli/commands.h"
#include "cli/version.h"

namespace brink::cli {
namespace {

class VersionCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }
  StatusOr<int> Run(const Parsed&) override {
    std::fputs(VersionText().c_str(), stdout);
    return kDone;
  }

 private:
  CommandSpec spec_{.name = "version", .summary = "print the version", .usage = ""};
};

}  // namespace

std::unique_ptr<Command> MakeVersion() { return std::make_unique<VersionCommand>(); }

}  // namespace brink::cli
