# Modules, tests and their warnings, stated once.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)

add_library(brink_flags INTERFACE)
target_compile_options(brink_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 sees ghosts in std::string concatenation (GCC bugs 105329, 105651).
  target_compile_options(brink_flags INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  if(BRINK_SANITIZE)
    # <regex> and std::function under the sanitizers' instrumentation (GCC bug 105562).
    target_compile_options(brink_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(BRINK_WERROR)
  target_compile_options(brink_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # libstdc++ 12's stable_sort uses what it calls deprecated itself; out of a precompiled header clang reports it.
  target_compile_options(brink_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety -Wno-deprecated-declarations>)
endif()
if(BRINK_SANITIZE)
  target_compile_options(brink_flags INTERFACE -fsanitize=${BRINK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(brink_flags INTERFACE -fsanitize=${BRINK_SANITIZE})
endif()
if(BRINK_FUZZ)
  target_compile_options(brink_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_include_directories(brink_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(brink_flags INTERFACE Threads::Threads)

# One precompiled header for the whole tree: Abseil and the STL cost more than our own code.
file(WRITE ${CMAKE_BINARY_DIR}/brink_pch.cc "")
add_library(brink_pch OBJECT ${CMAKE_BINARY_DIR}/brink_pch.cc)
target_link_libraries(brink_pch PRIVATE brink_flags)
target_precompile_headers(brink_pch PRIVATE
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>)
if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(brink_pch PRIVATE -fpch-preprocess)
endif()

# brink_module(NAME DEPS other modules... LIBS libraries...)
# Takes every .cc of the current folder; the library is brink_NAME.
function(brink_module name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  list(APPEND sources ${arg_SOURCES})
  add_library(brink_${name} STATIC ${sources})
  list(TRANSFORM arg_DEPS PREPEND brink_)
  target_link_libraries(brink_${name} PUBLIC brink_flags ${arg_DEPS} ${arg_LIBS}
    absl::status absl::statusor absl::strings absl::str_format absl::flat_hash_map absl::flat_hash_set)
  brink_use_pch(brink_${name})
endfunction()

function(brink_use_pch target)
  if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  target_precompile_headers(${target} REUSE_FROM brink_pch)
endfunction()

# brink_gtest(NAME ring DEPS modules... LIBS libraries... SOURCES files... [TIMEOUT seconds])
# One GoogleTest binary, one ctest entry labelled with its ring; "unit;threads" where TSan should look, "unit;nosan" where not.
function(brink_gtest name ring)
  cmake_parse_arguments(arg "" "TIMEOUT" "DEPS;LIBS;SOURCES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  list(TRANSFORM arg_DEPS PREPEND brink_)
  target_link_libraries(${name} PRIVATE brink_flags brink_test_support ${arg_DEPS} ${arg_LIBS} GTest::gmock_main)
  brink_use_pch(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ring}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "BRINK_BINARY=$<TARGET_FILE:brink>;BRINK_SOURCE_DIR=${CMAKE_SOURCE_DIR};BRINK_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()

# Helpers shared by every ring: processes, temporary folders, shared recordings, status matchers.
function(brink_test_support)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cc)
  add_library(brink_test_support STATIC ${sources})
  target_include_directories(brink_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(brink_test_support PUBLIC brink_flags brink_base GTest::gmock)
  brink_use_pch(brink_test_support)
endfunction()

# brink_fuzz(NAME DEPS modules... SOURCES files... [CORPUS folder])
# With BRINK_FUZZ a libFuzzer program; otherwise a plain program that runs its corpus once, as a unit-speed smoke test.
function(brink_fuzz name)
  cmake_parse_arguments(arg "" "CORPUS" "DEPS;LIBS;SOURCES" ${ARGN})
  if(BRINK_FUZZ)
    add_executable(${name} ${arg_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/support/standalone_main.cc)
  endif()
  list(TRANSFORM arg_DEPS PREPEND brink_)
  target_link_libraries(${name} PRIVATE brink_flags ${arg_DEPS} ${arg_LIBS})
  brink_use_pch(${name})
  if(BRINK_FUZZ)
    add_test(NAME ${name} COMMAND ${name} -runs=20000 -max_total_time=20 -rss_limit_mb=1024 ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  else()
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
