#!/bin/bash
# Every check of the project; what continuous integration runs.
#   tools/test.sh           packages, format, shell scripts, release build and tests, the sources that need CUDA and NCCL
#                           compiled, clang-tidy over the files that the last commits changed, the folders without LibTorch under
#                           ASan and UBSan, 20 s of each fuzz target, side by side
#   tools/test.sh --full    also the quickstart and what its model has learnt, a build file by file (the others compile several at a time, where one may lean on
#                           another's includes), clang-tidy over every file, what runs threads of its own under ThreadSanitizer, the
#                           numeric tests under every kernel choice of the libraries below, and the whole project under ASan and UBSan
# All phases run even if one fails; the exit status is 0 only if none did.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

full=false
case ${1-} in
  "") ;;
  --full) full=true ;;
  *) echo "usage: tools/test.sh [--full]" >&2; exit 64 ;;
esac

fuzz_seconds=20
sanitized_build=
summary=()
failed=0

# phase NAME COMMAND...: runs it, and notes its seconds and whether it held.
phase() {
  local name=$1 start=$SECONDS result=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" || { result=FAILED; failed=$((failed + 1)); }
  summary+=("$(printf '%-44s %-7s %5d s' "$name" "$result" $((SECONDS - start)))")
}

# Newer versions break lines elsewhere, so the files follow one version.
check_format() {
  local formatter=clang-format
  command -v clang-format-14 >/dev/null && formatter=clang-format-14
  if ! $formatter --version | grep -q ' 14\.'; then
    echo "not checked: the files follow clang-format 14, and this is: $($formatter --version)"
    return 0
  fi
  find src jobs tests -name '*.[ch]pp' -print0 | xargs -0 --no-run-if-empty $formatter --dry-run --Werror
}

check_scripts() {
  local scripts=()
  mapfile -t scripts < <(find .ci tools slurm tests -type f \( -name '*.sh' -o -name '*.sbatch' -o -path .ci/run \))
  shellcheck "${scripts[@]}"
}

build_release() { cmake --preset release && cmake --build --preset release && name_slurm_tests; }

# They need root, and Slurm as Debian packages it.
name_slurm_tests() {
  ctest --test-dir build/release -N -L slurm | grep -q 'Total Tests: 0' || return 0
  echo "NOT TESTED: job scripts under Slurm, as this user is not root or slurmctld, slurmd, slurm-client or munge could not be installed"
}

# run_tests BUILD_DIR. As many at a time as there are cores; a test of several ranks says how many it takes.
run_tests() { ctest --test-dir "$1" --output-on-failure --no-tests=error --parallel "$(nproc)"; }

build_file_by_file() { cmake --preset debug && cmake --build --preset debug; }

# build_sanitized BUILD_DIR CMAKE_ARGS...: the asan preset, built there several files at a time.
build_sanitized() {
  local directory=$1
  shift
  cmake --preset asan -B "$directory" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 "$@" &&
    cmake --build "$directory"
}

# What a build without a GPU leaves out: compiled where the headers are, so that it keeps up with the rest.
compile_cuda() {
  local include=${CUDA_HOME:-/usr/local/cuda}/include
  if ! printf '#include <cuda_runtime_api.h>\n#include <nccl.h>\n' | c++ -I"$include" -fsyntax-only -x c++ - 2>build/cuda.log; then
    echo "not compiled: cuda_runtime_api.h or nccl.h is neither in $include nor where the compiler looks"
    return 0
  fi
  cmake --preset release -B build/cuda -DSLUICE_TORCH=OFF -DSLUICE_TESTS=OFF -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON &&
    cmake --build build/cuda --target sluice_device sluice_comm
}

# LibTorch, its OpenMP and MPI are not compiled for ThreadSanitizer, which then takes what they order for races: so these tests
# keep to threads of the standard library.
test_threads() {
  local tests=(load_test comm_watchdog_test job_test work_sharing_on_standard_threads_test)
  cmake --preset tsan -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 &&
    cmake --build --preset tsan --target "${tests[@]}" &&
    ctest --test-dir build/tsan --output-on-failure --no-tests=error -R "^($(IFS='|'; echo "${tests[*]}"))\$"
}

# The folders without LibTorch, by Clang: tests and fuzz targets of one build, instrumented throughout, so that a fuzzer
# sees which inputs reach new code in any folder.
build_sanitized_core() {
  build_sanitized build/sanitized -DSLUICE_TORCH=OFF -DSLUICE_FUZZ=ON -DSLUICE_WERROR=OFF \
    -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link
}

# The tests leave half of the machine idle while ranks wait, so the next build begins beside them, and gives way to them.
test_release() {
  mkdir -p build
  (renice -n 15 "$BASHPID" >/dev/null; build_sanitized_core) >build/sanitized.log 2>&1 &
  sanitized_build=$!
  run_tests build/release
}

test_sanitized_core() {
  wait "$sanitized_build" || { tail -100 build/sanitized.log; return 1; }
  run_tests build/sanitized
}

test_quickstart() { tools/quickstart.sh && tests/check_quickstart.py; }

test_sanitized_whole() { build_sanitized build/asan && run_tests build/asan; }

# A fuzz target is tests/X/fuzz_NAME.cpp, an executable of that name under SLUICE_FUZZ=ON; tests/X/corpus_NAME are its seeds.
run_fuzzers() {
  local source name status=0 sources=() names=() running=()
  mapfile -t sources < <(find tests -name 'fuzz_*.cpp' | sort)
  if ((${#sources[@]} == 0)); then
    echo "no fuzz targets"
    return 0
  fi
  mkdir -p build/fuzz
  for source in "${sources[@]}"; do names+=("$(basename "$source" .cpp)"); done
  for source in "${sources[@]}"; do
    name=$(basename "$source" .cpp)
    fuzz_one "$name" "$(dirname "$source")/corpus_${name#fuzz_}" >"build/fuzz/$name.log" 2>&1 &
    running+=($!)
  done
  for name in "${names[@]}"; do
    wait "${running[0]}" || { status=1; tail -40 "build/fuzz/$name.log"; }
    running=("${running[@]:1}")
    grep -E 'stat::(number_of_executed_units|new_units_added)' "build/fuzz/$name.log" | sed "s/^/$name: /"
  done
  return $status
}

# fuzz_one NAME SEEDS: what it finds stays under build/fuzz, so the seeds in the tree stay as they are.
fuzz_one() {
  local found=build/fuzz/corpus/$1 seeds=()
  [[ -d $2 ]] && seeds=("$2")
  mkdir -p "$found"
  "build/sanitized/bin/$1" -max_total_time=$fuzz_seconds -rss_limit_mb=2048 -timeout=10 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$1-" "$found" "${seeds[@]}"
}

# Nothing below can run without the packages.
echo "== packages"
tools/setup.sh --dev || exit 1
summary+=("$(printf '%-44s %-7s %5d s' packages ok $SECONDS)")

phase "format" check_format
phase "shell scripts" check_scripts
phase "release build" build_release
phase "release tests" test_release
phase "CUDA and NCCL sources" compile_cuda
phase "ASan and UBSan without LibTorch" test_sanitized_core
phase "fuzz targets" run_fuzzers
if $full; then
  phase "clang-tidy, every file" tools/tidy.sh --full
  phase "file by file" build_file_by_file
  phase "quickstart, and what it has learnt" test_quickstart
  phase "ThreadSanitizer" test_threads
  phase "numbers under every kernel choice" tests/sweep_processors.sh build/release
  phase "ASan and UBSan, everything" test_sanitized_whole
else
  phase "clang-tidy" tools/tidy.sh
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
printf '%d of %d phases passed, %d failed, in %d s\n' $((${#summary[@]} - failed)) ${#summary[@]} $failed $SECONDS
((failed == 0))
