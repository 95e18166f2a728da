# Static forms in place of shared ones, for a program that runs on other distributions. Zydis has none in Debian and glibc
# is not to be linked statically: they stay shared, and tools/package ships Zydis beside the program. Abseil is static
# in any build (BrinkModule).
# What is named -lNAME or by a path below the library folder: a folder in front that holds the static forms only.
set(static ${CMAKE_BINARY_DIR}/static)
file(MAKE_DIRECTORY ${static})
foreach(name bpf elf dw z zstd cap seccomp lzma bz2 yaml)
  find_library(static_${name} lib${name}.a)
  if(static_${name})
    file(CREATE_LINK ${static_${name}} ${static}/lib${name}.a SYMBOLIC)
  endif()
endforeach()
add_link_options(-L${static})
# What libdw.a and libbpf.a want behind them: at the very end, behind what the modules bring along.
string(APPEND CMAKE_CXX_STANDARD_LIBRARIES " -lelf -llzma -lbz2 -lz -lzstd")
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
