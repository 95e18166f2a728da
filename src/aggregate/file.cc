#include "aggregate/file.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include "base/fd.h"
#include "base/output_file.h"
#include "base/strings.h"

namespace brink::aggregate {
namespace {

constexpr uint32_t kZstdMagic = 0xfd2fb528;
constexpr std::string_view kTextMagic = "brink-aggregate\t";
constexpr size_t kMostText = size_t{16} << 30;  // a file that claims more is not believed
constexpr int kLevel = 6;
constexpr int kWindowLog = 27;

StatusOr<std::string> Compress(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), kLevel);
  if (ZSTD_isError(size)) return Internal(std::string("zstd: ") + ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

StatusOr<std::string> Decompress(std::string_view bytes) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLog);
  std::string out, chunk(1 << 20, '\0');
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t left = 1;
  while (in.pos < in.size || left) {
    ZSTD_outBuffer piece{chunk.data(), chunk.size(), 0};
    const size_t before = in.pos;
    left = ZSTD_decompressStream(context.get(), &piece, &in);
    if (ZSTD_isError(left)) return DataLoss(std::string("damaged: ") + ZSTD_getErrorName(left));
    if (out.size() + piece.pos > kMostText) return ResourceExhausted("larger than 16 GiB");
    out.append(chunk, 0, piece.pos);
    if (piece.pos == 0 && in.pos == before) return DataLoss("cut short");
  }
  return out;
}

}  // namespace

Status Write(const Data& data, const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, Compress(ToText(data)));
  if (path == "-") return WriteAll(STDOUT_FILENO, bytes.data(), bytes.size());
  return ReplaceFile(path, bytes);
}

StatusOr<Data> Read(const std::string& path) {
  const std::string name = EscapeForTerminal(path);
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path == "-" ? "/dev/stdin" : path, kMostText));
  uint32_t magic = 0;
  if (bytes.size() >= sizeof(magic)) std::memcpy(&magic, bytes.data(), sizeof(magic));
  if (magic == kZstdMagic) {
    auto text = Decompress(bytes);
    if (!text.ok()) return Annotate(text.status(), name);
    bytes = *std::move(text);
  }
  auto data = FromText(bytes);
  if (!data.ok()) return Annotate(data.status(), name);
  return data;
}

bool LooksLikeAggregate(const std::string& path) {
  if (path == "-") return false;
  auto fd = OpenFile(path, O_RDONLY);
  if (!fd.ok()) return false;
  char start[kTextMagic.size()];
  const ssize_t n = pread(fd->get(), start, sizeof(start), 0);
  if (n >= static_cast<ssize_t>(sizeof(start)) && std::string_view(start, sizeof(start)) == kTextMagic) return true;
  return n >= 4 && std::memcmp(start, &kZstdMagic, 4) == 0;
}

}  // namespace brink::aggregate
