# What every target of ours shares: warnings, sanitizers, ccache, and the precompiled header for LibTorch.

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

add_library(sluice_options INTERFACE)
target_compile_features(sluice_options INTERFACE cxx_std_20)
target_compile_options(sluice_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wconversion -Wno-sign-conversion
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)
if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FAULTS)
  target_compile_definitions(sluice_options INTERFACE SLUICE_FAULTS)
endif()

# sluice_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...])
#   The library of src/NAME, as target sluice_NAME. Includes are written from src/.
function(sluice_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(sluice_${name} STATIC ${arg_SOURCES})
  add_library(sluice::${name} ALIAS sluice_${name})
  target_include_directories(sluice_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sluice_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} sluice_options)
endfunction()

# sluice_torch_headers(TARGET): compile TARGET against the one precompiled LibTorch header.
function(sluice_torch_headers target)
  if(NOT TARGET sluice_torch_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cpp "// Owner of the precompiled LibTorch header.\n")
    add_library(sluice_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cpp)
    target_link_libraries(sluice_torch_pch PUBLIC sluice::torch sluice_options)
    target_precompile_headers(sluice_torch_pch PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM sluice_torch_pch)
endfunction()
