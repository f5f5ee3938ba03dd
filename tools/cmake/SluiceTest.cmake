# How tests are registered: sluice_test() for one process, sluice_mpi_test() for several ranks, sluice_add_test() for a command.
#
# Labels: "quick" is what tools/test.sh runs, "full" what only tools/test.sh --full runs besides, "slurm" what needs a Slurm.
#
# What other CMake code may use to launch ranks itself:
#   SLUICE_MPIRUN            list: the launcher and its flags, to be followed by `-np N program args...`
#   SLUICE_MPI_TIMEOUT       seconds after which the launcher ends a job; CTest's own limit lies above it
#   SLUICE_TEST_SECONDS      CTest's limit of every test: a guard against hanging, several times what the slowest takes on a busy machine
#   SLUICE_TEST_ENVIRONMENT  list of NAME=value that launched tests run under
#   ${PROJECT_BINARY_DIR}/mpirun.sh   the same three for scripts: `mpirun.sh -np N program args...`
find_package(GTest REQUIRED)

# ---- the launcher, by its version ----------------------------------------------------------------------
set(SLUICE_MPI_TIMEOUT 300)
set(SLUICE_TEST_SECONDS 900)
if(SLUICE_SANITIZE)
  set(SLUICE_TEST_SECONDS 2700)
endif()
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version_text ERROR_QUIET)
set(SLUICE_MPIRUN ${MPIEXEC_EXECUTABLE})
if(version_text MATCHES "\\((Open MPI|OpenRTE)\\) ([0-9]+)")
  # Tests that run side by side must not be pinned to the same cores.
  list(APPEND SLUICE_MPIRUN --bind-to none --timeout ${SLUICE_MPI_TIMEOUT})
  if(CMAKE_MATCH_2 LESS 5)
    list(APPEND SLUICE_MPIRUN --oversubscribe)
  else()
    list(APPEND SLUICE_MPIRUN --map-by :OVERSUBSCRIBE)
  endif()
endif()
set(SLUICE_TEST_ENVIRONMENT OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1)
if(SLUICE_SANITIZE MATCHES "address")
  # Looking for leaks through the thread-local storage of plugins that MPI has unloaded crashes now and then. Open MPI's hooks in
  # mmap and its kin overwrite the functions that the sanitizer stands in front of; with Open MPI 6 MPI_Init then jumps into nowhere.
  list(APPEND SLUICE_TEST_ENVIRONMENT OMPI_MCA_memory=^patcher
    ASAN_OPTIONS=intercept_tls_get_addr=0
    LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.supp:print_suppressions=0)
endif()
# Whole jobs. What training leaks is looked for by the MPI tests; what MPI never gives back at an abort is no leak of ours.
set(SLUICE_JOB_ENVIRONMENT ${SLUICE_TEST_ENVIRONMENT})
if(SLUICE_SANITIZE MATCHES "address")
  list(APPEND SLUICE_JOB_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0 SLUICE_SLOWDOWN=5)
endif()

list(JOIN SLUICE_TEST_ENVIRONMENT " " environment_text)
list(JOIN SLUICE_MPIRUN " " mpirun_text)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/mpirun.sh @ONLY
  CONTENT "#!/bin/sh\nexec env @environment_text@ @mpirun_text@ \"$@\"\n")
file(CHMOD ${PROJECT_BINARY_DIR}/mpirun.sh PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# Where test programs find fixtures (tests/support/source_folder.hpp).
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/source_folder CONTENT "@PROJECT_SOURCE_DIR@\n" @ONLY)

# The longest tests start first, so that none of them is left over at the end: SLUICE_COST_name, processor seconds.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/COST.md)
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/COST.md rows REGEX "^\\| [^ ]+ \\| [0-9.]+ \\| [0-9.]+ \\|")
foreach(row IN LISTS rows)
  string(REGEX MATCH "^\\| ([^ ]+) \\| [0-9.]+ \\| ([0-9.]+)" row "${row}")
  set(SLUICE_COST_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()

# ---- registration ------------------------------------------------------------------------------------

# sluice_add_test(NAME COMMAND...): a quick test.
function(sluice_add_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT ${SLUICE_TEST_SECONDS})
  if(DEFINED SLUICE_COST_${name})
    set_tests_properties(${name} PROPERTIES COST ${SLUICE_COST_${name}})
  endif()
endfunction()

# Compiles a test against one precompiled header of GoogleTest, or of GoogleTest and LibTorch, and cheaply: test code is
# compiled far more often than it runs.
function(sluice_test_headers target)
  set(headers <gmock/gmock.h> <gtest/gtest.h> <filesystem> <functional> <map> <string> <vector>)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(unsanitized)
  if(SLUICE_SANITIZE MATCHES "undefined")
    set(unsanitized -fno-sanitize=undefined)  # of the tests themselves, which take a quarter longer to compile with it
  endif()
  if(libraries MATCHES "sluice::(ops|decoder|[a-z]+_torch)")
    sluice_share_headers(${target} sluice_torch_test_pch FLAGS -O0 ${unsanitized}
      LIBRARIES sluice::torch GTest::gtest GTest::gmock HEADERS ${SLUICE_TORCH_HEADERS} ${headers})
  else()
    sluice_share_headers(${target} sluice_test_pch FLAGS -O0 ${unsanitized}
      LIBRARIES sluice::json GTest::gtest GTest::gmock HEADERS <nlohmann/json.hpp> ${headers})
  endif()
endfunction()

function(sluice_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gmock sluice_options)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  sluice_test_headers(${name})
endfunction()

# sluice_test(NAME file... LIBRARIES lib...): a GoogleTest program without MPI.
function(sluice_test name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  sluice_test_program(${name} SOURCES ${arg_UNPARSED_ARGUMENTS} LIBRARIES ${arg_LIBRARIES} GTest::gtest_main)
  sluice_add_test(${name} ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${SLUICE_TEST_ENVIRONMENT}")
endfunction()

# sluice_mpi_test(NAME file... RANKS n... LIBRARIES lib...): a GoogleTest program with tests/support's main, run once for
#   each rank count as NAME.npN. Its tests reach all ranks through test_world() of support/mpi_test.hpp.
function(sluice_mpi_test name)
  cmake_parse_arguments(arg "" "" "RANKS;LIBRARIES" ${ARGN})
  sluice_test_program(${name} SOURCES ${arg_UNPARSED_ARGUMENTS} LIBRARIES ${arg_LIBRARIES} sluice::test_support)
  foreach(ranks IN LISTS arg_RANKS)
    sluice_add_test(${name}.np${ranks} ${SLUICE_MPIRUN} -np ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES
      PROCESSORS ${ranks} ENVIRONMENT "${SLUICE_TEST_ENVIRONMENT}")
  endforeach()
endfunction()

# sluice_suite_runner(TARGET DIRECTORY [file...]): the program in DIRECTORY that runs many jobs in one launch (tests/support/
#   suite_runner.cpp) and makes them fail where they are to, with these files and objects beside those of the jobs, as
#   sluice_programs() has them.
function(sluice_suite_runner target directory)
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/support/suite_runner.cpp $<TARGET_OBJECTS:sluice_fault_injection> ${ARGN}
    $<TARGET_OBJECTS:sluice_jobs> $<TARGET_OBJECTS:sluice_compute_jobs>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE sluice::job sluice::json sluice::generate_torch sluice::train_torch sluice_options)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${directory})
endfunction()

# sluice_use_runners(TEST): its jobs run in ranks that stay up for the next test, from the first such test of a ctest run to the last
#   (tests/jobs/suite.py; the fixture job_runners of tests/jobs/CMakeLists.txt).
function(sluice_use_runners test)
  set_tests_properties(${test} PROPERTIES FIXTURES_REQUIRED job_runners)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT SLUICE_RUNNERS=${PROJECT_BINARY_DIR}/runners)
endfunction()

option(SLUICE_FUZZ "Build the fuzz targets (needs clang)" OFF)

# sluice_fuzz_target(NAME [file...] LIBRARIES lib...): NAME.cpp as a libFuzzer program, with single files of a folder where the
#   whole of it is not needed; corpus_X beside it seeds fuzz_X. The fuzzer steers by the branches of all our code, so
#   configure with CMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link.
function(sluice_fuzz_target name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  if(SLUICE_FUZZ)
    add_executable(${name} ${name}.cpp ${arg_UNPARSED_ARGUMENTS})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} sluice_options)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
