// Programs of an unusual kind that walks are judged on, with what they need around them: file systems mounted, probes
// planted. All of it goes away with the object.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "truth.h"

namespace brink::fidelity {

class Specials {
 public:
  // Works in `folder`, which must outlive it.
  explicit Specials(const std::string& folder);
  ~Specials();
  Specials(const Specials&) = delete;
  Specials& operator=(const Specials&) = delete;

  const std::vector<Program>& programs() const { return programs_; }
  // What could not be made here, and why.
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void AddProbed(const std::string& folder);
  void AddFileSystems(const std::string& folder);

  std::vector<Program> programs_;
  std::vector<std::string> missing_;
  std::vector<std::string> mounted_;
  std::vector<UniqueFd> probes_;
};

}  // namespace brink::fidelity
