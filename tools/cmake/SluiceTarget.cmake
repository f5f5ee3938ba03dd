# What every target of ours shares: warnings, sanitizers, ccache, and precompiled headers.

# Objects out of ccache, where it is installed, also those of another checkout: settings are passed to each call, so that nothing
# depends on a file in somebody's home. A precompiled header is taken for the same if what it was made of is (its time is not looked at),
# and paths below the project are made relative. build/*/ccache.log tells of each call whether it was answered.
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_STATSLOG=${PROJECT_BINARY_DIR}/ccache.log ${SLUICE_CCACHE})
endif()

add_library(sluice_options INTERFACE)
set_target_properties(sluice_options PROPERTIES EXPORT_NAME options)
target_compile_features(sluice_options INTERFACE cxx_std_20)
target_compile_options(sluice_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wcast-align;-Wconversion;-Wno-sign-conversion>"
  # What nvcc hands to the host's compiler is not written to please -Wpedantic.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Wall;-Wextra>"
  "$<$<AND:$<BOOL:${SLUICE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>" "$<$<AND:$<BOOL:${SLUICE_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>")
# What ccache needs of the compiler: precompiled headers that stay visible behind the preprocessor (GCC) or do not hold a time (Clang),
# and no checkout's folder in objects: files of a unity build name their sources by absolute paths.
target_compile_options(sluice_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
else()
  target_compile_options(sluice_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()

# sluice_add_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...]): target sluice_NAME. Includes are written from src/.
function(sluice_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(sluice_${name} STATIC ${arg_SOURCES})
  add_library(sluice::${name} ALIAS sluice_${name})
  set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(sluice_${name} PUBLIC cxx_std_20)
  target_include_directories(sluice_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/sluice>)
  target_link_libraries(sluice_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} sluice_options)
endfunction()

# sluice_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...])
#   The library of src/NAME, as target sluice_NAME.
function(sluice_library name)
  sluice_add_library(${name} ${ARGN})
  sluice_share_headers(sluice_${name} sluice_pch LIBRARIES fmt::fmt HEADERS ${SLUICE_HEADERS})
endfunction()

# sluice_torch_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...])
#   The part of src/NAME that needs LibTorch, as target sluice_NAME_torch, on top of the part that does not: a program
#   that only describes, plans or moves bytes does without. Nothing without SLUICE_TORCH.
function(sluice_torch_library name)
  if(NOT SLUICE_TORCH)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  sluice_add_library(${name}_torch SOURCES ${arg_SOURCES} PUBLIC sluice::${name} ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  sluice_torch_headers(sluice_${name}_torch)
endfunction()

# sluice_read_command_line(TARGET): reading one needs no speed, and CLI11 takes four times as long to compile with it, and with UBSan
#   as long again.
function(sluice_read_command_line target)
  target_link_libraries(${target} PRIVATE sluice::cli11)
  target_compile_options(${target} PRIVATE -O0)
  if(SLUICE_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# sluice_share_headers(TARGET OWNER [FLAGS flag...] LIBRARIES lib... HEADERS header...): compile TARGET with these flags
#   against one precompiled header, which OWNER holds for every target that names it.
function(sluice_share_headers target owner)
  cmake_parse_arguments(arg "" "" "FLAGS;LIBRARIES;HEADERS" ${ARGN})
  if(NOT TARGET ${owner})
    file(WRITE ${PROJECT_BINARY_DIR}/${owner}.cpp "// Owner of a precompiled header.\n")
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/${owner}.cpp)
    target_link_libraries(${owner} PRIVATE ${arg_LIBRARIES} sluice_options)
    target_compile_options(${owner} PRIVATE ${arg_FLAGS})
    target_precompile_headers(${owner} PRIVATE ${arg_HEADERS})
  endif()
  target_compile_options(${target} PRIVATE ${arg_FLAGS})
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# Reading these is half of the time that most of our files take to compile.
set(SLUICE_HEADERS <fmt/format.h> <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <variant> <vector>)

# Tensors and autograd alone: every file that reads <torch/torch.h> takes twice as long.
set(SLUICE_TORCH_HEADERS <torch/types.h> <torch/autograd.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # LibTorch 1.13 has vectors of IValue where it is not complete yet, which Clang refuses in C++20.
  list(PREPEND SLUICE_TORCH_HEADERS <ATen/core/ivalue.h>)
endif()

# sluice_torch_headers(TARGET): compile TARGET against the one precompiled LibTorch header.
function(sluice_torch_headers target)
  sluice_share_headers(${target} sluice_torch_pch LIBRARIES sluice::torch HEADERS ${SLUICE_TORCH_HEADERS})
endfunction()
