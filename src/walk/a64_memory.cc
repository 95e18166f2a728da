// Loads and stores.
#include "walk/a64_lift.h"

namespace brink::walk {
namespace {

using a64::Form;

struct Access {
  uint32_t bytes;
  bool load;
  bool sign;
  bool wide;  // the register gets 64 bits
};

// Size and opc of the plain forms on general registers. False: unallocated.
bool PlainAccess(uint32_t size, uint32_t opc, Access* out) {
  *out = {.bytes = 1u << size, .load = opc != 0, .sign = opc >= 2, .wide = opc == 2 || size == 3};
  if (opc == 2) return size < 3;
  return opc != 3 || size < 2;
}

uint8_t MemorySize(uint32_t bytes) { return static_cast<uint8_t>(64 - 8 * bytes); }

void Base(A64Word& w) {
  w.u.flags |= BRINK_UOP_MEM;
  w.u.base = A64Word::Sp(w.bits(9, 5));
}

void Transfer(A64Word& w, const Access& access, uint32_t reg) {
  w.u.msh = MemorySize(access.bytes);
  if (access.load) {
    w.Op(BRINK_A64_LOAD);
    w.u.flags |= BRINK_UOP_LOAD;
    w.u.dst = A64Word::Dst(reg);
    w.u.sh = access.wide ? 0 : 32;
    w.u.aux = access.sign ? BRINK_A64_SIGNED : 0;
  } else {
    w.Op(BRINK_A64_STORE);
    w.u.flags |= BRINK_UOP_STORE;
    w.u.src = A64Word::Src(reg);
  }
}

void VectorTransfer(A64Word& w, bool load, uint32_t bytes, uint32_t reg) {
  w.Op(load ? BRINK_AV_LOAD : BRINK_AV_STORE);
  w.u.msh = static_cast<uint8_t>(bytes);
  w.u.aux = 1;
  (load ? w.u.dst : w.u.src) = static_cast<uint8_t>(reg);
}

// The base register moves, by `by`, before the access or after it.
void Back(A64Word& w, int32_t by, bool before) {
  w.u.flags |= BRINK_A64_BACK;
  w.u.imm = by;
  w.u.disp = before ? by : 0;
}

// Loads and stores of one register, vectors included: unscaled, post, pre, unprivileged, register and unsigned offset.
bool Single(A64Word& w) {
  const uint32_t size = w.bits(31, 30), opc = w.bits(23, 22), reg = w.bits(4, 0), base = w.bits(9, 5);
  const bool vector = w.bit(26), back = w.form == Form::kPost || w.form == Form::kPre;
  Access access{};
  bool prefetch = false;
  if (vector) {
    if ((opc & 2) && size != 0) return false;
    access.bytes = opc & 2 ? 16 : 1u << size;
    access.load = opc & 1;
  } else if (size == 3 && opc == 2 && !back && w.form != Form::kUnprivileged) {
    prefetch = true;
    access.bytes = 8;
  } else if (!PlainAccess(size, opc, &access)) {
    return false;
  }
  if (w.form == Form::kRegisterOffset) {
    const uint32_t option = w.bits(15, 13);
    if (!(option & 2)) return false;
    w.u.index = w.rm();
    uint8_t scale = 0;
    while (w.bit(12) && 1u << scale < access.bytes) ++scale;
    w.u.scale = scale;
    w.u.flags = option == 2 ? BRINK_A64_INDEX32 : option == 6 ? BRINK_A64_INDEX32S : 0;
  } else if (w.form == Form::kUnsignedOffset) {
    w.u.disp = static_cast<int32_t>(w.bits(21, 10) * access.bytes);
  } else {
    w.u.disp = w.imm(20, 12);
  }
  if (prefetch) {
    w.u = MicroOp{.op = BRINK_A64_NOP, .base = BRINK_WREG_ZERO, .index = BRINK_WREG_ZERO, .len = 4};
    return true;
  }
  if (back) {
    // The machine may do as it likes when the moved register is transferred as well.
    if (!vector && reg == base && reg != 31) return false;
    Back(w, w.u.disp, w.form == Form::kPre);
  }
  Base(w);
  if (vector) {
    VectorTransfer(w, access.load, access.bytes, reg);
  } else {
    Transfer(w, access, reg);
  }
  return true;
}

bool Literal(A64Word& w) {
  const uint32_t opc = w.bits(31, 30), reg = w.bits(4, 0);
  w.u.disp = w.imm(23, 5) * 4;
  w.u.base = BRINK_WREG_IP;
  if (w.bit(26)) {
    if (opc == 3) return false;
    w.u.flags = BRINK_UOP_MEM;
    VectorTransfer(w, true, 4u << opc, reg);
    return true;
  }
  if (opc == 3) {
    w.Op(BRINK_A64_NOP);
    w.u.base = BRINK_WREG_ZERO;
    return true;
  }
  w.u.flags = BRINK_UOP_MEM;
  Transfer(w, {.bytes = opc == 1 ? 8u : 4u, .load = true, .sign = opc == 2, .wide = opc >= 1}, reg);
  return true;
}

bool Pair(A64Word& w) {
  const uint32_t opc = w.bits(31, 30), kind = w.bits(24, 23), one = w.bits(4, 0), two = w.bits(14, 10), base = w.bits(9, 5);
  const bool vector = w.bit(26), load = w.bit(22), back = kind == 1 || kind == 3;
  if (opc == 3 || (!vector && opc == 1 && kind == 0)) return false;
  if (load && one == two) return false;
  if (back && !vector && base != 31 && (one == base || two == base)) return false;
  uint32_t bytes = vector ? 4u << opc : opc == 0 ? 4 : 8;
  uint32_t unit = bytes;
  bool sign = false;
  if (!vector && opc == 1) {
    sign = load;  // ldpsw; stgp stores eight bytes each and a tag, in units of sixteen
    if (load) bytes = unit = 4;
    else unit = 16;
  }
  w.u.disp = w.imm(21, 15) * static_cast<int32_t>(unit);
  if (back) Back(w, w.u.disp, kind == 3);
  Base(w);
  if (vector) {
    w.Op(load ? BRINK_AV_PAIR_LOAD : BRINK_AV_PAIR_STORE);
    w.u.msh = static_cast<uint8_t>(bytes);
    (load ? w.u.dst : w.u.src) = static_cast<uint8_t>(one);
    w.u.src2 = static_cast<uint8_t>(two);
    return true;
  }
  w.Op(load ? BRINK_A64_PAIR_LOAD : BRINK_A64_PAIR_STORE);
  w.u.msh = MemorySize(bytes);
  w.u.sh = sign || bytes == 8 ? 0 : 32;
  w.u.aux = sign ? BRINK_A64_SIGNED : 0;
  (load ? w.u.dst : w.u.src) = load ? A64Word::Dst(one) : A64Word::Src(one);
  w.u.src2 = load ? A64Word::Dst(two) : A64Word::Src(two);
  return true;
}

// Load and store exclusive, of one register or two.
bool Exclusive(A64Word& w, bool pair) {
  const uint32_t size = w.bits(31, 30), status = w.bits(20, 16), one = w.bits(4, 0), two = w.bits(14, 10), base = w.bits(9, 5);
  const bool load = w.bit(22);
  Base(w);
  w.u.msh = MemorySize(1u << size);
  w.u.aux = BRINK_A64_MONITORED;
  w.u.flags |= BRINK_A64_ALIGNED;
  if (load) {
    if (pair && one == two) return false;
    w.Op(pair ? BRINK_A64_PAIR_LOAD : BRINK_A64_LOAD);
    if (!pair) w.u.flags |= BRINK_UOP_LOAD;
    w.u.dst = A64Word::Dst(one);
    w.u.sh = size == 3 ? 0 : 32;
    if (pair) w.u.src2 = A64Word::Dst(two);
    return true;
  }
  if (status == one || (pair && status == two) || (status == base && base != 31)) return false;
  w.Op(pair ? BRINK_A64_PAIR_STORE : BRINK_A64_EXCLUSIVE);
  w.u.dst = A64Word::Dst(status);
  w.u.src = A64Word::Src(one);
  w.u.src2 = A64Word::Src(two);
  return true;
}

bool CompareAndSwap(A64Word& w, bool pair) {
  const uint32_t size = pair ? 2 + w.bit(30) : w.bits(31, 30), compared = w.bits(20, 16), stored = w.bits(4, 0);
  if (w.bits(14, 10) != 31) return false;
  Base(w);
  w.u.msh = MemorySize(1u << size);
  w.u.sh = size == 3 ? 0 : 32;
  w.u.dst = A64Word::Dst(compared);
  w.u.src = A64Word::Src(stored);
  if (!pair) {
    w.Op(BRINK_A64_SWAP_IF);
    w.u.src2 = A64Word::Src(compared);
    return true;
  }
  // Pairs begin with an even register; one that ends with the zero register has no place in a micro-op.
  if ((compared & 1) || (stored & 1) || compared == 30 || stored == 30) return false;
  w.Op(BRINK_A64_SWAP_PAIR);
  w.u.src2 = A64Word::Src(stored + 1);
  return true;
}

bool Ordered(A64Word& w) {
  const bool plain = w.bit(23), two = w.bit(21);
  if (!plain) return two && !w.bit(31) ? CompareAndSwap(w, true) : Exclusive(w, two);
  if (two) return CompareAndSwap(w, false);
  const uint32_t size = w.bits(31, 30);
  w.u.flags = BRINK_A64_ALIGNED;
  Base(w);
  Transfer(w, {.bytes = 1u << size, .load = w.bit(22) != 0, .sign = false, .wide = size == 3}, w.bits(4, 0));
  return true;
}

bool OrderedUnscaled(A64Word& w) {
  Access access{};
  if (!PlainAccess(w.bits(31, 30), w.bits(23, 22), &access)) return false;
  w.u.flags = BRINK_A64_ALIGNED;
  w.u.disp = w.imm(20, 12);
  Base(w);
  Transfer(w, access, w.bits(4, 0));
  return true;
}

bool Atomic(A64Word& w) {
  const uint32_t size = w.bits(31, 30), opc = w.bits(14, 12), value = w.bits(20, 16);
  Base(w);
  if (w.bit(15) && opc == 4) {  // ldapr
    if (w.bits(23, 22) != 2 || value != 31) return false;
    w.u.flags |= BRINK_A64_ALIGNED;
    Transfer(w, {.bytes = 1u << size, .load = true, .sign = false, .wide = size == 3}, w.bits(4, 0));
    return true;
  }
  if (w.bit(15) && opc != 0) return false;
  w.Op(BRINK_A64_ATOMIC);
  w.u.msh = MemorySize(1u << size);
  w.u.sh = size == 3 ? 0 : 32;
  w.u.dst = w.rd();
  w.u.src = A64Word::Src(value);
  w.u.aux = static_cast<uint8_t>(w.bit(15) ? uint32_t{BRINK_A64_AT_SWAP} : opc);
  return true;
}

// Tags of memory are not followed. What is zeroed along with them ends the walk.
bool MemoryTag(A64Word& w) {
  const uint32_t opc = w.bits(23, 22), kind = w.bits(11, 10);
  if (kind == 0) return opc == 1 && w.ClobberReg(w.bits(4, 0), true);  // ldg
  if (opc & 1) return false;
  w.Op(BRINK_A64_NOP);
  if (kind == 2) return true;
  Back(w, w.imm(20, 12) * 16, kind == 3);
  w.u.base = A64Word::Sp(w.bits(9, 5));
  return true;
}

// Structures: ld1 and st1 as they are, the interleaving ones by effect.
bool VectorMultiple(A64Word& w, bool post) {
  const uint32_t opcode = w.bits(15, 12), bytes = w.bit(30) ? 16 : 8, reg = w.bits(4, 0);
  const bool load = w.bit(22);
  uint32_t count;
  bool plain = false;
  switch (opcode) {
    case 0: count = 4; break;
    case 2: count = 4; plain = true; break;
    case 4: count = 3; break;
    case 6: count = 3; plain = true; break;
    case 7: count = 1; plain = true; break;
    case 8: count = 2; break;
    case 10: count = 2; plain = true; break;
    default: return false;
  }
  if (!plain && w.bits(11, 10) == 3 && bytes == 8) return false;
  if (post) {
    if (w.bits(20, 16) != 31) return false;  // moved by a register
    Back(w, static_cast<int32_t>(count * bytes), false);
  }
  Base(w);
  if (plain) {
    VectorTransfer(w, load, bytes, reg);
    w.u.aux = static_cast<uint8_t>(count);
    return true;
  }
  w.u.msh = static_cast<uint8_t>(count * bytes);
  if (load) return w.ClobberVector(reg, count);
  return w.Clobber(BRINK_A64_LOSE_MEMORY);
}

bool VectorSingle(A64Word& w, bool post) {
  const uint32_t opcode = w.bits(15, 13), size = w.bits(11, 10), count = (opcode & 1) * 2 + w.bit(21) + 1, reg = w.bits(4, 0);
  const bool load = w.bit(22);
  uint32_t log = opcode >> 1;
  if (log == 3) {
    if (!load || w.bit(12)) return false;
    log = size;
  } else if (log == 1) {
    if (size & 1) return false;
  } else if (log == 2) {
    if (size > 1 || (size == 1 && w.bit(12))) return false;
    log += size;
  }
  const uint32_t bytes = count << log;
  if (post) {
    if (w.bits(20, 16) != 31) return false;
    Back(w, static_cast<int32_t>(bytes), false);
  }
  Base(w);
  if (opcode == 6 && count == 1) {
    VectorTransfer(w, true, bytes, reg);
    w.Op(BRINK_AV_REPEAT_LOAD);
    w.u.scale = static_cast<uint8_t>(log);
    w.u.sh = w.bit(30) ? 16 : 8;
    return true;
  }
  w.u.msh = static_cast<uint8_t>(bytes);
  if (load) return w.ClobberVector(reg, count);
  return w.Clobber(BRINK_A64_LOSE_MEMORY);
}

}  // namespace

bool LiftA64Memory(A64Word& w) {
  switch (w.form) {
    case Form::kVectorMultiple: return VectorMultiple(w, false);
    case Form::kVectorMultiplePost: return VectorMultiple(w, true);
    case Form::kVectorSingle: return VectorSingle(w, false);
    case Form::kVectorSinglePost: return VectorSingle(w, true);
    case Form::kMemoryTag: return MemoryTag(w);
    case Form::kExclusive: return Ordered(w);
    case Form::kOrderedUnscaled: return OrderedUnscaled(w);
    case Form::kLiteral: return Literal(w);
    case Form::kPair: return Pair(w);
    case Form::kUnscaled:
    case Form::kPost:
    case Form::kUnprivileged:
    case Form::kPre:
    case Form::kRegisterOffset:
    case Form::kUnsignedOffset: return Single(w);
    case Form::kAtomic: return Atomic(w);
    default: return false;
  }
}

}  // namespace brink::walk
