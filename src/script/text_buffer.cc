#include "script/text_buffer.h"

#include <cerrno>
#include <unistd.h>

namespace brink::script {

void TextBuffer::Write(std::string_view text) {
  while (status_.ok() && !text.empty()) {
    ssize_t n = write(fd_, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      status_ = ErrnoError(errno, "cannot write the output");
    }
  }
}

void TextBuffer::Drain() {
  Write({begin_.get(), static_cast<size_t>(at_ - begin_.get())});
  at_ = begin_.get();
}

void TextBuffer::LongText(std::string_view text) {
  Drain();
  Write(text);
}

}  // namespace brink::script
