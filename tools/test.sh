#!/bin/bash
# Every check of the project; what continuous integration runs.
#   tools/test.sh           packages, format, shell scripts, release build and tests (CUDA and NCCL over stand-ins among them), and
#                           of what changed since the commit of tools/changed_files.sh --base: clang-tidy, the tests of the folders
#                           without LibTorch under ASan and UBSan, 20 s of each fuzz target. These two run whole in every fourth
#                           commit, by its digest, and where the build, what tests share or src/base changed
#   tools/test.sh --full    also the quickstart and what its model has learnt, a build file by file (the others compile several at a time, where one may lean on
#                           another's includes), clang-tidy over every file, what runs threads of its own under ThreadSanitizer, the
#                           numeric tests under every kernel choice of the libraries below, and the whole project under ASan and UBSan
#   tools/test.sh --changed [BASE [SECONDS]]   for use while working: format, and of the release build the tests that run what has changed
#                           since the commit BASE (HEAD if left out), by tests/reach.txt, as many as cost SECONDS (100) of a processor
#   tools/test.sh --cuda    these alone: everything built and linked with CUDA and NCCL, against a CUDA LibTorch and without
#                           LibTorch, and the tests that need no GPU on both builds; the sources for CUDA compiled for Arm
# All phases run even if one fails; the exit status is 0 only if none did.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

full=false
cuda=false
changed=false
base=HEAD
budget=
case ${1-} in
  "") ;;
  --full) full=true ;;
  --changed) changed=true; base=${2:-HEAD}; budget=${3:-100} ;;
  --cuda) cuda=true ;;
  *) echo "usage: tools/test.sh [--full | --changed [BASE [SECONDS]] | --cuda]" >&2; exit 64 ;;
esac

fuzz_seconds=20
sanitized_build=
fuzz_targets=()
tidy_of_changes=
summary=()
notes=()
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

build_release() {
  rm -f build/release/ccache.log
  cmake --preset release && cmake --build --preset release && name_slurm_tests && name_host_tests
}

# tell_cache NAME BUILD_DIR: how many of a build's compilations ccache answered, and why it could not look at others.
tell_cache() {
  [[ -e $2/ccache.log ]] || return 0
  notes+=("$(awk -v name="$1" '
    /^#/ { calls++; known = 0; next }
    !known && /^(direct_cache_hit|preprocessed_cache_hit)$/ { hits++; known = 1 }
    !known && /^cache_miss$/ { misses++; known = 1 }
    !known && !/_(cache|storage)_/ { known = 1; others[$0]++; other++ }
    END {
      printf "%-44s %d calls of the compiler, %d answered by ccache (%.0f %%), %d not cached", name, calls, hits, calls ? 100 * hits / calls : 0, other
      for (reason in others) printf ", %d %s", others[reason], reason
      print ""
    }' "$2/ccache.log")")
}

# They need root, and Slurm as Debian packages it.
name_slurm_tests() {
  local tests
  tests=$(ctest --test-dir build/release -N -L slurm)
  if [[ $tests == *'Total Tests: 0'* ]]; then
    echo "NOT TESTED: job scripts under Slurm, as this user is not root or slurmctld, slurmd, slurm-client or munge could not be installed"
  elif [[ $tests != *slurm_Survives* ]]; then
    echo "NOT TESTED: job scripts with srun, as this Slurm has no pmix"
  fi
}

# They need root, namespaces and iproute2.
name_host_tests() {
  if [[ $(ctest --test-dir build/release -N -L hosts) == *'Total Tests: 0'* ]]; then
    echo "NOT TESTED: several hosts, as this user cannot make network namespaces, or ip and tc are not installed"
  fi
}

# run_tests BUILD_DIR OPTIONS... One more at a time than there are cores, as ranks often wait; a test of several ranks says how many
# it takes.
run_tests() { ctest --test-dir "$1" --output-on-failure --no-tests=error --parallel $(($(nproc) + 1)) "${@:2}"; }

# Builds and runs what the change since ${base} reaches, within ${budget}.
test_changed() {
  local reached targets
  [[ -e build/release/build.ninja ]] || cmake --preset release || return 1
  reached=$(tools/changed_tests.py build/release "$base" "$budget") || return 1
  read -ra targets <<<"${reached%%$'\n'*}"
  cmake --build --preset release --target "${targets[@]}" &&
    ctest --test-dir build/release --output-on-failure --no-tests=error --parallel $(($(nproc) + 1)) -R "${reached#*$'\n'}"
}

build_file_by_file() { cmake --preset debug && cmake --build --preset debug; }

# build_sanitized BUILD_DIR CMAKE_ARGS...: the asan preset, built there several files at a time.
build_sanitized() {
  local directory=$1
  shift
  rm -f "$directory/ccache.log"
  cmake --preset asan -B "$directory" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 "$@" &&
    cmake --build "$directory"
}

# configure_cuda DIRECTORY CMAKE_ARGS...: nvcc and a CUDA LibTorch are those of tools/setup.sh --cuda.
configure_cuda() {
  local directory=$1
  shift
  # shellcheck disable=SC1091
  (source .cache/cuda/environment.sh && cmake --preset release -B "$directory" -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON "$@")
}

build_cuda() { configure_cuda build/cuda && cmake --build build/cuda; }

# With the stand-ins, whose sources are then compiled against the real headers.
build_cuda_without_torch() { configure_cuda build/cuda-core -DSLUICE_TORCH=OFF && cmake --build build/cuda-core; }

# The wheel's libraries are built for whatever a machine has; a CPU's LibTorch must be told apart at once.
refuse_cpu_torch() {
  local log=build/cuda-refused.log
  rm -rf build/cuda-refused
  if cmake --preset release -B build/cuda-refused -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON -DSLUICE_TESTS=OFF >$log 2>&1; then
    echo "a LibTorch for the CPU was taken for a CUDA build"
    return 1
  fi
  if [[ $(grep -c '^CMake Error' $log) != 1 ]] || ! tr -s ' \n' ' ' <$log | grep -q 'is one for the CPU'; then cat $log; return 1; fi
}

# One line and 71 where there is no driver.
refuse_missing_driver() {
  local program output status
  printf '[job]\nkind = "load"\noutput = "build/no-driver"\n[model]\npath = "tests/fixtures/qwen3-moe-tiny"\n[device]\nkind = "cuda"\n' >build/no-driver.toml
  for program in build/cuda/bin/sluice build/cuda-core/bin/sluice; do
    output=$("$program" run build/no-driver.toml 2>&1)
    status=$?
    echo "$program: $output"
    if nvidia-smi >/dev/null 2>&1; then continue; fi
    [[ $status == 71 && $output == *'no GPU can be used'* && $output != *$'\n'* ]] || return 1
  done
}

# GB10 is Arm: what knows CUDA's headers, by its compiler, kernels by nvcc with that behind it.
compile_cuda_for_arm() {
  local source torch kernels=()
  # shellcheck disable=SC1091
  source .cache/cuda/environment.sh
  torch=${CMAKE_PREFIX_PATH%/share/cmake}/include
  mapfile -t kernels < <(find src -name '*.cu')
  mkdir -p build/arm
  for source in src/device/cuda.cpp src/comm/nccl/nccl_communicator.cpp src/comm/nccl/nccl_handle.cpp; do
    aarch64-linux-gnu-g++ -std=c++20 -O2 -Wall -Wextra -Werror -Isrc -isystem "$CUDA_HOME/include" -isystem "$(nccl_headers)" -idirafter /usr/include \
      -DFMT_HEADER_ONLY -c "$source" -o "build/arm/$(basename "$source").o" || return 1
  done
  for source in "${kernels[@]}"; do
    nvcc -std=c++20 -ccbin aarch64-linux-gnu-g++ -gencode arch=compute_121,code=sm_121 --expt-relaxed-constexpr -Isrc -isystem "$CUDA_HOME/include" \
      -isystem "$CUDA_HOME/include/cccl" -isystem "$torch" -isystem "$torch/torch/csrc/api/include" -c "$source" -o "build/arm/$(basename "$source").o" || return 1
  done
  echo "${#kernels[@]} files of kernels and 3 others"
}

nccl_headers() {
  local folder
  for folder in "${CMAKE_PREFIX_PATH%%/torch/*}/nvidia/nccl/include" "$CUDA_HOME/include"; do
    [[ -e $folder/nccl.h ]] && { echo "$folder"; return 0; }
  done
}

# LibTorch, its OpenMP and MPI are not compiled for ThreadSanitizer, which then takes what they order for races: so these tests
# keep to threads of the standard library.
test_threads() {
  local tests=(load_test comm_watchdog_test job_test process_test work_sharing_on_standard_threads_test)
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

# Why everything is checked, or nothing where the change since ${base} is enough.
why_everything() {
  local head
  head=$(git rev-parse HEAD)
  if $full; then
    echo "--full"
  elif ((16#${head: -1} % 4 == 0)); then
    echo "HEAD is ${head:0:12}, one commit in four"
  else
    tools/changed_files.sh "$base" | grep -m1 -E '^(CMakeLists\.txt|CMakePresets\.json|tests/CMakeLists\.txt|tools/(cmake/|changed_|test\.sh|tidy\.sh)|tests/support/|src/base/)'
  fi
}

# Run in the background: give_way COMMAND lets all others go before it, after PID COMMAND waits for that process to end.
give_way() { renice -n 15 "$BASHPID" >/dev/null; "$@"; }
after() { while kill -0 "$1" 2>/dev/null; do sleep 1; done; "${@:2}"; }

# Kernels for 64-bit Arm, under an emulator on other machines.
test_arm() {
  local status=0
  tests/ops/arm/test.sh || status=$?
  if ((status == 77)); then echo "not run"; else return "$status"; fi
}

# The tests leave a part of the machine idle while ranks wait, so what comes next begins beside them.
test_release() {
  mkdir -p build
  give_way build_sanitized_core >build/sanitized.log 2>&1 &
  sanitized_build=$!
  if ! $full; then
    give_way after "$sanitized_build" tools/tidy.sh >build/clang-tidy.log 2>&1 &
    tidy_of_changes=$!
  fi
  if $full; then run_tests build/release; else run_tests build/release -L '^quick$'; fi
}

check_tidy_of_changes() {
  local status=0
  wait "$tidy_of_changes" || status=1
  cat build/clang-tidy.log
  return $status
}

# Sets ${fuzz_targets}, for run_fuzzers.
test_sanitized_core() {
  wait "$sanitized_build" || { tail -100 build/sanitized.log; return 1; }
  local base why reached
  base=$(tools/changed_files.sh --base) || return 1
  why=$(why_everything)
  if [[ -n $why ]]; then
    notes+=("$(printf '%-44s %s' "sanitized tests and fuzz targets: all, as" "$why")")
    mapfile -t fuzz_targets < <(find tests -name 'fuzz_*.cpp' -printf '%f\n' | sed 's/\.cpp$//' | sort)
    run_tests build/sanitized
  else
    reached=$(tools/changed_tests.py build/sanitized "$base" --linked 2>build/reached.txt) || { cat build/reached.txt; return 1; }
    notes+=("$(cat build/reached.txt)")
    read -ra fuzz_targets <<<"${reached#*$'\n'}"
    run_tests build/sanitized -R "${reached%%$'\n'*}"
  fi
}

test_quickstart() { tools/quickstart.sh && tests/check_quickstart.py; }

test_sanitized_whole() { build_sanitized build/asan && run_tests build/asan; }

# A fuzz target is tests/X/fuzz_NAME.cpp, an executable of that name under SLUICE_FUZZ=ON; tests/X/corpus_NAME are its seeds.
run_fuzzers() {
  local name status=0 running=()
  mkdir -p build/fuzz
  for name in "${fuzz_targets[@]}"; do
    fuzz_one "$name" "$(dirname tests/*/"$name.cpp")/corpus_${name#fuzz_}" >"build/fuzz/$name.log" 2>&1 &
    running+=($!)
  done
  for name in "${fuzz_targets[@]}"; do
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

finish() {
  printf '\n== summary\n'
  printf '%s\n' "${summary[@]}" "${notes[@]}"
  printf '%d of %d phases passed, %d failed, in %d s\n' $((${#summary[@]} - failed)) ${#summary[@]} $failed $SECONDS
  ((failed == 0))
}

if $changed; then
  phase "format" check_format
  phase "tests of the change since $base" test_changed
  finish
  exit
fi

# Nothing below can run without the packages.
echo "== packages"
if $cuda; then tools/setup.sh --cuda || exit 1; else tools/setup.sh --dev || exit 1; fi
summary+=("$(printf '%-44s %-7s %5d s' packages ok $SECONDS)")

if $cuda; then
  phase "a LibTorch for the CPU is refused" refuse_cpu_torch
  phase "CUDA build without LibTorch" build_cuda_without_torch
  phase "its tests" run_tests build/cuda-core
  phase "CUDA sources for Arm" compile_cuda_for_arm
  phase "CUDA build" build_cuda
  phase "no driver" refuse_missing_driver
  phase "its tests" run_tests build/cuda
  finish
  exit
fi

phase "format" check_format
phase "shell scripts" check_scripts
phase "release build" build_release
tell_cache "release build" build/release
phase "release tests" test_release
phase "ASan and UBSan without LibTorch" test_sanitized_core
tell_cache "sanitized build" build/sanitized
phase "fuzz targets" run_fuzzers
if $full; then
  phase "clang-tidy, every file" tools/tidy.sh --full
  phase "file by file" build_file_by_file
  phase "quickstart, and what it has learnt" test_quickstart
  phase "ThreadSanitizer" test_threads
  phase "numbers under every kernel choice" tests/sweep_processors.sh build/release
  phase "products on 64-bit Arm" test_arm
  phase "ASan and UBSan, everything" test_sanitized_whole
else
  phase "clang-tidy" check_tidy_of_changes
fi

finish
