# BPF objects: every *.bpf.c with clang, linked by bpftool into one object a name, and a skeleton header.
find_program(BPF_CLANG NAMES clang-19 clang-14 clang)
find_program(BPFTOOL bpftool PATHS /usr/sbin /sbin)

# brink_bpf_object(NAME sources...)
# Gives the interface library brink_bpf_NAME, whose include folder holds NAME.skel.h and, as a file, NAME.bpf.o.
function(brink_bpf_object name)
  set(out ${CMAKE_BINARY_DIR}/bpf)
  file(MAKE_DIRECTORY ${out})
  add_library(brink_bpf_${name} INTERFACE)
  target_include_directories(brink_bpf_${name} SYSTEM INTERFACE ${out})
  if(BRINK_PREBUILT_SKELETONS)
    if(EXISTS ${BRINK_PREBUILT_SKELETONS}/${name}.skel.h)
      configure_file(${BRINK_PREBUILT_SKELETONS}/${name}.skel.h ${out}/${name}.skel.h COPYONLY)
    else()
      message(WARNING "no prebuilt skeleton of ${name}: what includes it will not build")
    endif()
    return()
  endif()
  if(NOT BPF_CLANG OR NOT BPFTOOL)
    message(FATAL_ERROR "BPF objects need clang and bpftool; install them or pass -DBRINK_PREBUILT_SKELETONS=DIR")
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(target_arch arm64)
  else()
    set(target_arch x86)
  endif()
  set(objects)
  foreach(source ${ARGN})
    get_filename_component(stem ${source} NAME_WE)
    set(object ${out}/${name}.${stem}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -Wall -Werror -D__TARGET_ARCH_${target_arch}
              -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/vmlinux -I${CMAKE_SOURCE_DIR}/bpf
              -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
              -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fdebug-compilation-dir=.  # else the folder stands in the program
              -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
      COMMENT "BPF ${source}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(OUTPUT ${out}/${name}.bpf.o
    COMMAND ${BPFTOOL} gen object ${out}/${name}.bpf.o ${objects} DEPENDS ${objects} VERBATIM)
  add_custom_command(OUTPUT ${out}/${name}.skel.h
    COMMAND sh -c "${BPFTOOL} gen skeleton ${out}/${name}.bpf.o name ${name}_bpf > ${out}/${name}.skel.h.tmp && mv ${out}/${name}.skel.h.tmp ${out}/${name}.skel.h"
    DEPENDS ${out}/${name}.bpf.o VERBATIM)
  add_custom_target(brink_skel_${name} DEPENDS ${out}/${name}.skel.h)
  add_dependencies(brink_bpf_${name} brink_skel_${name})
endfunction()
