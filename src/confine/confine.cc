#include "confine/confine.h"

#include <cstdlib>
#include <linux/capability.h>
#include <string_view>

#include "confine/broker.h"
#include "kernel/privileges.h"

namespace brink {
namespace {

void Note(ConfineLayer& layer, const Status& status) {
  layer.in_force = status.ok();
  if (!status.ok()) layer.reason = Message(status);
}

}  // namespace

Confinement Confine(const ConfineRequest& request) {
  Confinement result;
  const char* wish = std::getenv("BRINK_CONFINE");
  if (wish && std::string_view(wish) == "off") {
    for (ConfineLayer* layer : {&result.capabilities, &result.landlock, &result.seccomp}) layer->reason = "BRINK_CONFINE=off";
    return result;
  }
  // Before anything is given up: the broker keeps what reading other processes' files takes.
  if (request.broker) (void)StartBroker();
  Note(result.capabilities, DropPrivileges({CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYSLOG}));
  Note(result.landlock, LimitFiles(request.outputs));
  Note(result.seccomp, LimitSystemCalls());
  return result;
}

}  // namespace brink
