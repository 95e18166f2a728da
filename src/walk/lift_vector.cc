#include "walk/decoded.h"

namespace brink::walk {
bool LiftVector(const Decoded&, Insn*) { return false; }
}  // namespace brink::walk
