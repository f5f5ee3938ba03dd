#!/bin/bash
# What a GPU machine lacks to build and run Sluice, in one archive: MPI, HDF5, header libraries, GoogleTest and pkg-config, as
# Debian 12 installs them here, with the shared libraries they need beyond the C and C++ ones.
#   tools/gpu/pack.sh OUT.tar.xz      on Debian 12, after tools/setup.sh
# Unpacked into any directory D it holds D/usr as Debian lays it out; `D/env.sh` sets what finds it there (tools/gpu_check.sh
# reads it). It needs a C library of Debian 12's version, 2.36, or later.
set -euo pipefail

out=${1:?usage: tools/gpu/pack.sh OUT.tar.xz}
fail() { echo "pack.sh: $*" >&2; exit 1; }
grep -q '^VERSION_ID="12"' /etc/os-release || fail "the archive is made on Debian 12, and this is: $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)"

packages=(libopenmpi-dev openmpi-bin openmpi-common libopenmpi3 libpmix2 libhwloc15 libhdf5-dev libhdf5-103-1 libhdf5-hl-100
  libtomlplusplus-dev libtomlplusplus3 nlohmann-json3-dev libcli11-dev libspdlog-dev libspdlog1.10 libfmt-dev libfmt9 libxxhash-dev libxxhash0
  libpcre2-dev libpcre2-8-0 libgtest-dev libgmock-dev pkgconf pkgconf-bin libpkgconf3)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# Manuals, message catalogues, Fortran, Java and C++ bindings, and static libraries but GoogleTest's are left out.
wanted_files() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W "$package" >/dev/null 2>&1 || fail "$package is not installed; run tools/setup.sh"
    dpkg -L "$package"
  done | grep -v -E '^/(etc/alternatives|usr/share/(doc|man|locale|lintian|bug))(/|$)|/(fortran|mod)/|\.(mod|jar)$|mpi_(cxx|java|mpifh|usempi)|hdf5/serial/lib.*_(fortran|cpp)' |
    grep -v -E '/lib(hdf5|pcre2|mca|open|oshmem|ompi|mpi)[^/]*\.a$' | sort -u
}

copy() {  # copy FILE: as it is, or what a link of Debian's alternatives leads to
  local target
  [[ -d $1 && ! -L $1 ]] && return 0
  mkdir -p "$stage$(dirname "$1")"
  target=$(readlink "$1" || true)
  if [[ $target == /* ]]; then cp -L "$1" "$stage$1"; else cp -a "$1" "$stage$1"; fi
}

# libraries_of FILE...: the shared libraries they load, without those of the C and C++ compilers.
libraries_of() {
  ldd "$@" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p' | sort -u |
    grep -v -E '/(ld-linux|lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+)\.so)' || true
}

while read -r file; do [[ -e $file || -L $file ]] && copy "$file"; done < <(wanted_files)
# The wrapper's names and those of MPI's own choice of libraries are alternatives, which no package lists.
for file in /usr/bin/mpirun /usr/bin/mpiexec /usr/bin/pkg-config /usr/lib/x86_64-linux-gnu/libmpi.so /usr/include/x86_64-linux-gnu/mpi; do
  [[ -e $file ]] && mkdir -p "$stage$(dirname "$file")" && cp -rL "$file" "$stage$file"
done
mapfile -t binaries < <(find "$stage/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \))
while read -r library; do
  [[ -e $stage$library ]] && continue
  mkdir -p "$stage$(dirname "$library")"
  cp -L "$library" "$stage$library"
done < <(libraries_of "${binaries[@]}")
# Merged systems name one directory in two ways.
if [[ -d $stage/lib ]]; then cp -a "$stage/lib/." "$stage/usr/lib/" && rm -rf "${stage:?}/lib"; fi

cat >"$stage/env.sh" <<'END'
# Source it with `pack` set to the directory it lies in.
libraries=$pack/usr/lib/x86_64-linux-gnu
export PATH=$pack/usr/bin:$PATH
export LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib:$libraries/pmix2/lib:$libraries/hdf5/serial${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PREFIX=$pack/usr OPAL_LIBDIR=$libraries OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3 OPAL_SYSCONFDIR=$pack/etc/openmpi
export PMIX_INSTALL_PREFIX=$libraries/pmix2 PMIX_MCA_pcompress_base_silence_warning=1
export PKG_CONFIG_SYSROOT_DIR=$pack PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$pack/usr/share/pkgconfig
# The scripts of CMake look for MPI and HDF5 through compilers' wrappers, which know Debian's paths alone.
pack_arguments=(
  -DCMAKE_PREFIX_PATH="$pack/usr" -DMPI_SKIP_COMPILER_WRAPPER=ON -DMPI_C_HEADER_DIR="$libraries/openmpi/include"
  -DMPI_C_LIB_NAMES=mpi -DMPI_mpi_LIBRARY="$libraries/openmpi/lib/libmpi.so" -DMPIEXEC_EXECUTABLE="$pack/usr/bin/mpirun"
  -DHDF5_ROOT="$pack/usr" -DHDF5_C_COMPILER_EXECUTABLE=NOTFOUND -DHDF5_C_INCLUDE_DIR="$pack/usr/include/hdf5/serial"
  -DHDF5_hdf5_LIBRARY_RELEASE="$libraries/hdf5/serial/libhdf5.so" -DPKG_CONFIG_EXECUTABLE="$pack/usr/bin/pkg-config"
  -DSLUICE_JSON_INCLUDE="$pack/usr/include" -DSLUICE_CLI11_INCLUDE="$pack/usr/include"
  -Dfmt_DIR="$libraries/cmake/fmt" -Dspdlog_DIR="$libraries/cmake/spdlog" -Dtomlplusplus_DIR="$libraries/cmake/tomlplusplus"
  -DGTest_DIR="$libraries/cmake/GTest")
END
mkdir -p "$(dirname "$out")"
tar -C "$stage" -cJf "$out" .
printf 'wrote %s: %s, of %s unpacked\n' "$out" "$(du -h "$out" | cut -f1)" "$(du -sh "$stage" | cut -f1)"
