#!/bin/bash
# Everything that needs a GPU, in one command, on a machine that has one, and nothing but PyTorch, nvcc, a compiler and CMake.
#   tools/gpu_check.sh [--archive FILE] [--json FILE] [--only PART,...] [--ranks N]
#       builds with CUDA and NCCL, holds each operation on the GPU against this processor's and LibTorch's kernels against their
#       formulas, runs the fixtures on the GPU at one rank and at as many as there are GPUs, loads a synthesized
#       checkpoint of 34.66 B parameters, takes steps in the low-memory modes, and transformers' on the same shape where that is
#       installed; prints GB/s, peaks, tokens/s and MFU, and writes them as JSON (default: tools/bench/results/gpu-DATE.json).
#       FILE holds the libraries that the machine lacks (default: build/gpu-pack.tar.xz, if it is there)
#   tools/gpu_check.sh --pack [FILE]       makes that archive, on Debian 12
# Parts: seam, fixtures, load, modes, step, peer. Exit status: 0 all held, 1 a number did not, 71 no GPU can be used here.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=build/gpu-pack.tar.xz
measure=()
pack_only=false
usage() { sed -n '3p;9p' "$0" | cut -c5- >&2; exit 64; }
while (($#)); do
  case $1 in
    --pack) pack_only=true; [[ -n ${2-} && $2 != --* ]] && { archive=$2; shift; } ;;
    --archive) archive=${2:?--archive FILE}; shift ;;
    --json | --only | --ranks) measure+=("$1" "${2:?$1 VALUE}"); shift ;;
    *) usage ;;
  esac
  shift
done
if $pack_only; then exec tools/gpu/pack.sh "$archive"; fi

build=build/gpu
step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
fail() { printf 'gpu_check.sh: %s\n' "$*" >&2; exit 1; }

step "tools"
python=$(command -v python3) || fail "python3 is not there"
torch=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)') || fail "$python has no torch: install PyTorch's CUDA wheel"
"$python" -c 'import torch, sys; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda); sys.exit(not torch.version.cuda)' ||
  fail "$python has a PyTorch for the CPU: install its CUDA wheel"
for tool in cmake c++; do command -v "$tool" >/dev/null || fail "$tool is not there"; done
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || fail "nvcc is neither on the path nor in ${CUDA_HOME:-/usr/local/cuda}/bin"
"$nvcc" --version | tail -2 | head -1
pack_arguments=()
if [[ -e $archive ]]; then
  pack=$PWD/build/gpu-pack
  mkdir -p "$pack"
  tar -C "$pack" -xJf "$archive"
  # shellcheck disable=SC1091
  source "$pack/env.sh"
  echo "MPI, HDF5 and header libraries: $archive"
fi

step "build: $build"
generator=(-G "Unix Makefiles")
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
prefix=("$torch" ${pack:+"$pack/usr"})
cmake -S . -B $build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 \
  -DSLUICE_CUDA=ON -DSLUICE_NCCL=ON -DSLUICE_TESTS=OFF -DSLUICE_WERROR=OFF -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
  "${pack_arguments[@]}" -DCMAKE_PREFIX_PATH="$(IFS=';'; echo "${prefix[*]}")" >build/gpu.configure.log 2>&1 ||
  { tail -40 build/gpu.configure.log >&2; fail "cmake could not configure the project"; }
cmake --build $build --parallel "$(nproc)" --target sluice gpu_seam_test >build/gpu.build.log 2>&1 ||
  { grep -m 20 -E 'error|Error' build/gpu.build.log >&2; fail "the build failed: build/gpu.build.log"; }
$build/bin/sluice-train --version

step "GPU"
exec "$python" tools/gpu/check.py --sluice "$build/bin/sluice" "${measure[@]}"
