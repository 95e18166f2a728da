// Whether this is a build with AddressSanitizer or ThreadSanitizer: their run time needs more memory and system calls.
// gcc defines macros, clang answers a question.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BRINK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BRINK_SANITIZED 1
#endif
#endif
#ifndef BRINK_SANITIZED
#define BRINK_SANITIZED 0
#endif
