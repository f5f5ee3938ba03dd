#!/bin/bash
# clang-tidy, as .clang-tidy says, over the .cpp files that changed since the commit of tools/changed_files.sh --base.
#   tools/tidy.sh            at most 80 of them, those changed last first: some three minutes on two cores
#   tools/tidy.sh --full     every .cpp file
#   tools/tidy.sh FILE...    these
# The commands are those of the debug preset, configured into build/tidy and never built there. Prints what it found; the exit
# status is 0 only if that is nothing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

most_files=80
build=build/tidy
tidy=clang-tidy-22
# Version 22 is the first that leaves system headers alone, which for a file with LibTorch is 3 s instead of 30 s; others also
# find other things.
if ! command -v $tidy >/dev/null; then
  echo "not checked: the files follow $tidy, which is not there (Debian 12 has it in its security archive)"
  exit 0
fi

base=$(tools/changed_files.sh --base) || exit
sources() { git ls-files --cached --others --exclude-standard -- 'src/*.cpp' 'jobs/*.cpp' 'tests/*.cpp' 'tools/*.cpp'; }

case ${1-} in
  --full) mapfile -t files < <(sources) ;;
  "") mapfile -t files < <(tools/changed_files.sh "$base" | grep -Fxf <(sources)) ;;
  -*) echo "usage: tools/tidy.sh [--full | FILE...]" >&2; exit 64 ;;
  *) files=("$@") ;;
esac

cmake --preset debug -B $build >$build.log 2>&1 || { cat $build.log; exit 1; }
# What this configuration does not compile (CUDA, NCCL, fuzz targets) has no command.
mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -Fxf <(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\".*|\1|p" $build/compile_commands.json))
if [[ $# == 0 && ${#files[@]} -gt $most_files ]]; then
  echo "of the ${#files[@]} files that changed since ${base:0:12} the $most_files that were changed last; --full takes all"
  files=("${files[@]:0:most_files}")
fi

# LibTorch 1.13 has members of type vector<IValue> before IValue is complete. That is allowed as long as nothing of the vector is
# needed at once, but clang needs the functions that GCC 12's library declares constexpr in C++20. Without constexpr it reads on.
cat >$build/vector.hpp <<'END'
#include <algorithm>
#include <memory>
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE == 12
#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // declared constexpr by <algorithm>
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
#endif
END
# -fno-openmp: clang has no omp.h of its own here. Deprecated is what GCC's own std::stable_sort calls. The build's flags name
# warnings that only GCC has.
options=(-p "$build" --quiet --extra-arg-before=-include"$PWD/$build/vector.hpp" --extra-arg=-fno-openmp
  --extra-arg=-Wno-deprecated-declarations --extra-arg=-Wno-unknown-warning-option)

# tidy_one FILE: its findings, in one piece. One header's findings come with every file that includes it.
tidy_one() {
  local found status
  found=$($tidy "${options[@]}" "$1" 2>&1)
  status=$?
  grep -vE '^([0-9]+ warnings? |Suppressed |\[[0-9]+/[0-9]+\])' <<<"$found" | grep .
  return $status
}

running=0
failed=0
reap() { wait -n || failed=$((failed + 1)); running=$((running - 1)); }
for file in "${files[@]}"; do
  ((running < $(nproc))) || reap
  tidy_one "$file" &
  running=$((running + 1))
done
while ((running > 0)); do reap; done
echo "${#files[@]} files, $failed with findings"
((failed == 0))
