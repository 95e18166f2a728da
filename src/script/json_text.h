// JSON strings out of untrusted bytes.
#pragma once

#include <string_view>

#include "script/text_buffer.h"

namespace brink::script {

// With quotes. What is no valid UTF-8 becomes U+FFFD, so that the line stays JSON.
void PutJsonString(std::string_view text, TextBuffer* out);

}  // namespace brink::script
