# Every foreign library, found once, under one target name each. Nothing is downloaded. An installed Sluice finds them for its
# users by this file, too: its targets are imported ones, which the exported libraries name and do not contain.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
add_library(sluice::xxhash ALIAS PkgConfig::XXHASH)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
add_library(sluice::pcre2 ALIAS PkgConfig::PCRE2)

find_path(SLUICE_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(SLUICE_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
foreach(pair "json;${SLUICE_JSON_INCLUDE}" "cli11;${SLUICE_CLI11_INCLUDE}")
  list(GET pair 0 name)
  list(GET pair 1 include)
  add_library(sluice::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(sluice::${name} SYSTEM INTERFACE ${include})
endforeach()

# ---- MPI: the C interface alone --------------------------------------------------------------------
find_package(MPI REQUIRED COMPONENTS C)
add_library(sluice::mpi INTERFACE IMPORTED GLOBAL)
target_link_libraries(sluice::mpi INTERFACE MPI::MPI_C)
target_compile_definitions(sluice::mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

# ---- HDF5: the serial library, which LibTorch 1.13 loads as well ---------------------------------------
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)
if(HDF5_IS_PARALLEL)
  message(FATAL_ERROR "The parallel HDF5 was found (${HDF5_C_INCLUDE_DIRS}), but LibTorch loads the serial one and two copies "
    "in one process clash. Install libhdf5-dev, or point HDF5_ROOT at a serial HDF5.")
endif()
# HDF5 2 passes on the feature macros it was itself compiled with (_FILE_OFFSET_BITS, _POSIX_C_SOURCE). Its headers do not
# need them, and code compiled with them cannot share a precompiled header with code that is not.
foreach(library IN LISTS HDF5_C_LIBRARIES)
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES INTERFACE_COMPILE_DEFINITIONS "")
  endif()
endforeach()
add_library(sluice::hdf5 INTERFACE IMPORTED GLOBAL)
target_include_directories(sluice::hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(sluice::hdf5 INTERFACE ${HDF5_C_LIBRARIES})
target_compile_definitions(sluice::hdf5 INTERFACE ${HDF5_C_DEFINITIONS})

include(SluiceCuda)

# ---- LibTorch ----------------------------------------------------------------------------------------
if(SLUICE_TORCH)
  # A CUDA LibTorch compiles for the GPUs of this machine unless it is told for which.
  set(TORCH_CUDA_ARCH_LIST ${SLUICE_CUDA_ARCHITECTURES})
  find_package(Torch REQUIRED)
  # nvcc may take an older compiler than the one that links, whose libstdc++ lacks what the newer one's objects ask for.
  list(FILTER CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES EXCLUDE REGEX "/gcc/")
  # LibTorch's parallel loops live in its headers and run in one thread in code compiled without OpenMP.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  separate_arguments(SLUICE_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  add_library(sluice::torch INTERFACE IMPORTED GLOBAL)
  sluice_torch_libraries(libraries)
  target_link_libraries(sluice::torch INTERFACE ${libraries})
  target_include_directories(sluice::torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_compile_options(sluice::torch INTERFACE ${SLUICE_TORCH_FLAGS})
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST libraries)
    target_compile_options(sluice::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
  endif()
  # A wheel brings headers of its own fmt, which come first, and not the library that goes with them.
  get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  if(EXISTS ${TORCH_INSTALL_PREFIX}/include/fmt/format.h AND NOT "${TORCH_INSTALL_PREFIX}/include" IN_LIST fmt_include)
    target_compile_definitions(sluice::torch INTERFACE FMT_HEADER_ONLY)
  endif()
  # GCC 13 and 14 take the growth of a vector<bool> inside LibTorch's Function::apply() for an overrun.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^1[34]\\.")
    target_compile_options(sluice::torch INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
  endif()

  # oneDNN, where it is the very library that LibTorch loads: two versions in one process would share names.
  find_path(SLUICE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(SLUICE_ONEDNN_LIBRARY dnnl)
  if(SLUICE_ONEDNN_INCLUDE AND SLUICE_ONEDNN_LIBRARY)
    execute_process(COMMAND ${CMAKE_READELF} -d ${SLUICE_ONEDNN_LIBRARY} OUTPUT_VARIABLE own)
    find_library(SLUICE_TORCH_CPU torch_cpu HINTS ${TORCH_INSTALL_PREFIX}/lib)
    execute_process(COMMAND ${CMAKE_READELF} -d ${SLUICE_TORCH_CPU} OUTPUT_VARIABLE needed)
    if(own MATCHES "SONAME[^\n]*\\[(libdnnl[^]]*)\\]")
      string(FIND "${needed}" "[${CMAKE_MATCH_1}]" is_needed)
    endif()
  endif()
  if(is_needed GREATER_EQUAL 0)
    add_library(sluice::onednn INTERFACE IMPORTED GLOBAL)
    target_include_directories(sluice::onednn SYSTEM INTERFACE ${SLUICE_ONEDNN_INCLUDE})
    target_link_libraries(sluice::onednn INTERFACE ${SLUICE_ONEDNN_LIBRARY})
    target_compile_definitions(sluice::onednn INTERFACE SLUICE_ONEDNN)
    file(STRINGS ${SLUICE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h parts REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM parts REPLACE "^.* ([0-9]+)$" "\\1")
    list(JOIN parts "." SLUICE_ONEDNN_VERSION)
  else()
    message(STATUS "bfloat16 products go through LibTorch: its oneDNN has no headers here")
  endif()
endif()

# ---- CUDA and NCCL, both optional ---------------------------------------------------------------------
sluice_find_cuda()
