#!/bin/bash
# Runs the numeric tests under every kernel choice of OpenBLAS and oneDNN that this processor can run, on 1 to 4 threads, and then the tests of jobs,
# each choice of each library once.
#   tests/sweep_processors.sh BUILD_DIR [JOBS]
# JOBS is a regular expression of ctest's names, in place of all jobs whose numbers are compared. What depends on time and not on numbers
# (ProgressHook) is left out. Prints the settings under which a test failed, with its output; the exit status is 0 only if none did.
set -uo pipefail
if (($# < 1 || $# > 2)); then
  echo "usage: tests/sweep_processors.sh BUILD_DIR [JOBS]" >&2
  exit 64
fi
binaries=$1/bin
jobs=${2:-'^job_(adapter|evaluate|generate|lora|mixture|packing|reference|resume|routing|sweep|texts)|^other_device_(late|early)'}
tests=(ops_test decoder_test train_torch_test)
has() { grep -qw "$1" /proc/cpuinfo; }

blas_kernels=(Prescott)
has avx2 && blas_kernels+=(Haswell Zen)
has avx512f && blas_kernels+=(SkylakeX)
isa_levels=(SSE41)
has avx && isa_levels+=(AVX)
has avx2 && isa_levels+=(AVX2)
has avx512f && isa_levels+=(AVX512_CORE)
has avx512_vnni && isa_levels+=(AVX512_CORE_VNNI)
has avx512_bf16 && isa_levels+=(AVX512_CORE_BF16)
has amx_tile && isa_levels+=(AVX512_CORE_AMX)
torch_levels=(default) # of LibTorch's own loops
has avx2 && torch_levels+=(avx2)
has avx512f && torch_levels+=(avx512)

runs=0
failed=0
# try VARIABLE=VALUE: all test programs under it, on 1 to 4 threads.
try() {
  local threads test output
  for threads in 1 2 3 4; do
    for test in "${tests[@]}"; do
      runs=$((runs + 1))
      output=$(env "$1" OMP_NUM_THREADS=$threads "$binaries/$test" --gtest_brief=1 --gtest_filter=-ProgressHook.* 2>&1) && continue
      failed=$((failed + 1))
      printf '%s under %s on %d threads failed:\n%s\n' "$test" "$1" "$threads" "$output"
    done
  done
}

# try_jobs VARIABLE=VALUE...: the tests of jobs under all of these.
try_jobs() {
  local output
  runs=$((runs + 1))
  output=$(env "$@" ctest --test-dir "${binaries%/bin}" -j "$(nproc)" -R "$jobs" --no-tests=error --output-on-failure 2>&1) && return
  failed=$((failed + 1))
  printf 'jobs under %s failed:\n%s\n' "$*" "$output"
}

for kernel in "${blas_kernels[@]}"; do try "OPENBLAS_CORETYPE=$kernel"; done
for level in "${isa_levels[@]}"; do try "ONEDNN_MAX_CPU_ISA=$level"; done
# Which library a number comes from is independent of the others' choices: the first ones together, the second ones, and where one has no more, its last.
for ((i = 0; i < ${#isa_levels[@]} || i < ${#blas_kernels[@]}; ++i)); do
  at() { local -n choices=$1 && echo "${choices[i < ${#choices[@]} ? i : -1]}"; }
  try_jobs "OPENBLAS_CORETYPE=$(at blas_kernels)" "ONEDNN_MAX_CPU_ISA=$(at isa_levels)" "ATEN_CPU_CAPABILITY=$(at torch_levels)"
done
printf 'BLAS kernels %s; oneDNN levels %s; LibTorch %s; 1 to 4 threads, jobs on one: %d runs, %d failed\n' \
  "${blas_kernels[*]}" "${isa_levels[*]}" "${torch_levels[*]}" "$runs" "$failed"
((failed == 0 && runs > 0))
