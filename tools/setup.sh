#!/bin/bash
# Installs what building and running need, from Debian's own archive (Debian 12, 13 or sid).
#   tools/setup.sh          what the build, the tests and the plots need
#   tools/setup.sh --dev    also clang, clang-format, libFuzzer, shellcheck, Slurm and, where Debian has this version, clang-tidy 22
#                           for tools/test.sh
#   tools/setup.sh --cuda   what the build needs, and for a build with CUDA and NCCL: PyTorch's wheel, and nvcc's where there is none,
#                           in .cache/cuda (5 GB), unless SLUICE_CUDA_PYTHON names a Python that has a CUDA PyTorch; a compiler for
#                           Arm. Writes .cache/cuda/environment.sh, which a shell sources before it calls cmake
# Asks for nothing and changes nothing when all packages are there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libtorch-dev libopenblas0-openmp libopenblas-openmp-dev libopenblas-dev libdnnl-dev
  libopenmpi-dev openmpi-bin
  libhdf5-dev hdf5-tools
  libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libxxhash-dev libpcre2-dev
  libgtest-dev libgmock-dev
  python3 python3-h5py python3-jinja2 python3-matplotlib python3-numpy util-linux-extra
)
wanted=()  # installed where this Debian has them
case ${1-} in
  "") ;;
  --dev) packages+=(clang clang-format iproute2 libclang-rt-dev shellcheck) wanted+=(clang-tidy-22 slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge) ;;
  --cuda) packages+=(python3-venv g++-aarch64-linux-gnu) ;;
  *) echo "usage: tools/setup.sh [--dev | --cuda]" >&2; exit 64 ;;
esac

fail() { echo "setup.sh: $*" >&2; exit 1; }

is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

as_root() {
  if ((EUID == 0)); then "$@"; else
    command -v sudo >/dev/null || fail "needs root: run it as root, or install sudo"
    sudo "$@"
  fi
}

lists_are_fresh=false
refresh_lists() {
  $lists_are_fresh || as_root apt-get update -qq || fail "apt-get update failed; is there a network?"
  lists_are_fresh=true
}

# OpenBLAS's pthread build keeps threads of its own, which compete with LibTorch's OpenMP threads for the same cores. Both
# builds may be installed, and the system then prefers that one; a choice that somebody made by hand stays.
prefer_openmp_blas() {
  local library name value chosen
  for library in libblas.so.3 liblapack.so.3 libopenblas.so.0; do
    name=$library-$(gcc -print-multiarch)
    value=/usr/lib/$(gcc -print-multiarch)/openblas-openmp/$library
    chosen=$(update-alternatives --query "$name" 2>/dev/null) || continue
    [[ $chosen == *"Status: auto"* && $chosen == *"Value: /usr/lib/"*"/openblas-pthread/"* ]] || continue
    [[ -e $value ]] && as_root update-alternatives --quiet --set "$name" "$value"
  done
  return 0
}

# float32 products are 50 times slower with the reference BLAS, and nothing says so at run time.
warn_about_blas() {
  local name active
  name=libblas.so.3-$(gcc -print-multiarch)
  active=$(update-alternatives --query "$name" 2>/dev/null | sed -n 's/^Value: //p')
  [[ $active == *openblas* ]] ||
    echo "setup.sh: warning: the active BLAS is '${active:-unknown}', not OpenBLAS; choose it with: update-alternatives --config $name" >&2
}

# The wheels that were tried: PyTorch's brings CUDA's libraries and NCCL with it.
torch_wheel=torch==2.15.0
nvcc_wheels=(nvidia-cuda-nvcc==13.2.* nvidia-cuda-crt==13.2.* nvidia-nvvm==13.2.*)

has_cuda_torch() { "$1" -c 'import sys, torch; sys.exit(not torch.version.cuda)' 2>/dev/null; }

# A folder as the toolkit's installer makes it: libraries also under the names that linkers look for.
complete_toolkit() {
  local library name
  for library in "$1"/lib/lib*.so.*; do
    name=${library%%.so.*}.so
    [[ -e $name ]] || ln -s "$(basename "$library")" "$name"
  done
  [[ -e $1/lib64 ]] || ln -s lib "$1/lib64"
}

install_cuda() {
  local python=${SLUICE_CUDA_PYTHON-} toolkit=${CUDA_HOME:-/usr/local/cuda} cache=.cache/cuda
  mkdir -p $cache
  if [[ -z $python ]]; then
    python=$PWD/$cache/venv/bin/python3
    [[ -x $python ]] || python3 -m venv $cache/venv
    has_cuda_torch "$python" || { echo "setup.sh: installing $torch_wheel"; "$python" -m pip install --quiet "$torch_wheel"; }
  fi
  has_cuda_torch "$python" || fail "$python has no PyTorch with CUDA"
  if [[ ! -x $toolkit/bin/nvcc ]]; then
    [[ -z ${SLUICE_CUDA_PYTHON-} ]] || fail "there is no nvcc in $toolkit: set CUDA_HOME to a CUDA toolkit"
    toolkit=$("$python" -c 'import pathlib, nvidia; print(pathlib.Path(list(nvidia.__path__)[0]) / "cu13")')
    [[ -x $toolkit/bin/nvcc ]] || { echo "setup.sh: installing ${nvcc_wheels[*]}"; "$python" -m pip install --quiet "${nvcc_wheels[@]}"; }
    complete_toolkit "$toolkit"
  fi
  cat >$cache/environment.sh <<END
export CUDA_HOME=$toolkit CUDA_PATH=$toolkit CUDAToolkit_ROOT=$toolkit PATH=$toolkit/bin:\$PATH CUDACXX=$toolkit/bin/nvcc
export CMAKE_PREFIX_PATH=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)')
END
  echo "setup.sh: CUDA $("$toolkit/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') in $toolkit, $("$python" -c 'import torch; print("PyTorch", torch.__version__)'); before cmake: source $cache/environment.sh"
}

command -v dpkg-query >/dev/null || fail "this is not Debian; install the counterparts of: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
# The lists say which of the wanted ones this Debian has, and a fresh image has no lists.
if ((${#missing[@]})); then refresh_lists; fi
for package in "${wanted[@]}"; do
  is_installed "$package" || ! apt-cache show "$package" >/dev/null 2>&1 || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup.sh: installing ${missing[*]}"
  refresh_lists
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null ||
    fail "apt-get could not install the packages above"
fi
prefer_openmp_blas
warn_about_blas
if [[ ${1-} == --cuda ]]; then install_cuda; fi
