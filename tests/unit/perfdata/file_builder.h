// A second implementation of the format, for tests: spells recordings of either byte order out, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace brink::perfdata {

enum class Order { kLittle, kBig };

// Bytes with numbers in one order.
class Bytes {
 public:
  explicit Bytes(Order order) : order_(order) {}
  Bytes& U8(uint64_t v) { return Put(v, 1); }
  Bytes& U16(uint64_t v) { return Put(v, 2); }
  Bytes& U32(uint64_t v) { return Put(v, 4); }
  Bytes& U64(uint64_t v) { return Put(v, 8); }
  Bytes& U64s(std::initializer_list<uint64_t> words) {
    for (uint64_t w : words) U64(w);
    return *this;
  }
  Bytes& Raw(const std::string& bytes) {
    text_ += bytes;
    return *this;
  }
  // The text, then NULs up to `size`.
  Bytes& Name(const std::string& text, size_t size) {
    text_ += text;
    text_.append(size - text.size(), '\0');
    return *this;
  }
  const std::string& text() const { return text_; }
  Order order() const { return order_; }

 private:
  Bytes& Put(uint64_t v, int size) {
    for (int i = 0; i < size; ++i) text_ += static_cast<char>(v >> 8 * (order_ == Order::kLittle ? i : size - 1 - i));
    return *this;
  }
  Order order_;
  std::string text_;
};

// A word of bit fields {value, width} in the order of their declaration: from the low end on little-endian machines, from
// the high end on big-endian ones.
inline uint64_t BitFields(Order order, const std::vector<std::pair<uint64_t, int>>& fields) {
  uint64_t word = 0;
  int at = 0;
  for (auto [value, width] : fields) {
    word |= value << (order == Order::kLittle ? at : 64 - at - width);
    at += width;
  }
  return word;
}

// mispred, predicted, in_tx, abort, cycles, type, spec, new_type, priv.
struct BranchFlags {
  uint64_t mispred = 0, predicted = 0, in_tx = 0, abort = 0, cycles = 0, type = 0, spec = 0, new_type = 0, priv = 0;
};
inline uint64_t FlagsWord(Order order, const BranchFlags& f) {
  return BitFields(order, {{f.mispred, 1}, {f.predicted, 1}, {f.in_tx, 1}, {f.abort, 1}, {f.cycles, 16}, {f.type, 4}, {f.spec, 2}, {f.new_type, 4}, {f.priv, 3}});
}

struct AttrText {
  uint64_t size = 128;
  uint64_t type = 0, config = 0, period = 1000, sample_type = 0, read_format = 0, branch_type = 0, regs_user = 0, regs_intr = 0, stack_user = 0;
  bool sample_id_all = true, freq = false, exclude_kernel = false;
  uint64_t precise = 0;

  std::string Text(Order order) const {
    Bytes b(order);
    // disabled inherit pinned exclusive, user kernel hv idle, mmap comm freq ..., precise at 15, sample_id_all at 18
    uint64_t flags = BitFields(order, {{0, 5}, {exclude_kernel, 1}, {0, 2}, {1, 1}, {1, 1}, {freq, 1}, {0, 4}, {precise, 2}, {0, 1}, {sample_id_all, 1}});
    b.U32(type).U32(size).U64s({config, period, sample_type, read_format, flags}).U32(0).U32(0).U64s({0, 0, branch_type, regs_user});
    b.U32(stack_user).U32(0).U64(regs_intr).U32(0).U16(0).U16(0).U32(0).U32(0).U64s({0x77, 0x79});
    return b.text().substr(0, size);
  }
};

inline std::string RecordText(Order order, uint64_t type, uint64_t misc, const std::string& body) {
  return Bytes(order).U32(type).U16(misc).U16(8 + body.size()).Raw(body).text();
}

struct Section {
  int feature;
  std::string bytes;
};

// attributes with their ids, then data, then sections.
inline std::string FileText(Order order, const std::vector<std::pair<AttrText, std::vector<uint64_t>>>& events, const std::string& data,
                            const std::vector<Section>& sections = {}) {
  Bytes ids(order), attrs(order);
  uint64_t attr_size = events[0].first.size;
  for (const auto& [attr, list] : events) {
    attrs.Raw(attr.Text(order)).U64(104 + ids.text().size()).U64(8 * list.size());
    for (uint64_t id : list) ids.U64(id);
  }
  uint64_t attrs_at = 104 + ids.text().size(), data_at = attrs_at + attrs.text().size();
  uint64_t bits[4] = {};
  for (const Section& s : sections) bits[s.feature / 64] |= 1ull << s.feature % 64;
  Bytes header(order);
  header.Raw(order == Order::kLittle ? "PERFILE2" : "2ELIFREP").U64(104).U64(attr_size + 16).U64(attrs_at).U64(attrs.text().size());
  header.U64(data_at).U64(data.size()).U64(0).U64(0).U64(bits[0]).U64(bits[1]).U64(bits[2]).U64(bits[3]);
  Bytes table(order), payload(order);
  uint64_t at = data_at + data.size() + 16 * sections.size();
  for (const Section& s : sections) {
    table.U64(at + payload.text().size()).U64(s.bytes.size());
    payload.Raw(s.bytes);
  }
  return header.text() + ids.text() + attrs.text() + data + table.text() + payload.text();
}

inline std::string PipeText(Order order, const std::vector<std::pair<AttrText, std::vector<uint64_t>>>& events, const std::string& data) {
  Bytes out(order);
  out.Raw(order == Order::kLittle ? "PERFILE2" : "2ELIFREP").U64(16);
  for (const auto& [attr, list] : events) {
    Bytes body(order);
    body.Raw(attr.Text(order));
    for (uint64_t id : list) body.U64(id);
    out.Raw(RecordText(order, 64, 0, body.text()));
  }
  return out.text() + data;
}

inline std::string StringText(Order order, const std::string& text, size_t size = 64) { return Bytes(order).U32(size).Name(text, size).text(); }

}  // namespace brink::perfdata
