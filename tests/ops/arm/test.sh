#!/bin/bash
# Tests the kernels of products for 64-bit Arm on any machine: compiles them for Arm, counts the instructions of their innermost loops, and
# runs products_test.cpp under an emulator, as a processor with products of bfloat16 and as one without.
#
#   tests/ops/arm/test.sh [DIRECTORY FOR OBJECTS]
#
# On an Arm machine the compiler is that of the machine, and the program runs there. Elsewhere: apt-get install g++-aarch64-linux-gnu qemu-user.
set -euo pipefail
cd "$(dirname "$0")/../../.."

if [ "$(uname -m)" = aarch64 ]; then
  prefix="" emulator=""
else
  prefix=aarch64-linux-gnu- emulator=qemu-aarch64
fi
for program in ${prefix}g++ ${prefix}objdump $emulator python3; do
  if ! command -v "$program" >/dev/null; then
    echo "tests/ops/arm/test.sh: $program is not there; on Debian: apt-get install g++-aarch64-linux-gnu qemu-user python3" >&2
    exit 77
  fi
done

objects=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -r "$objects"' EXIT
mkdir -p "$objects"
files=(src/ops/cpu/products/neon.cpp src/ops/cpu/products/arm_bfloat16.cpp src/ops/cpu/products/any_processor.cpp tests/ops/arm/products_test.cpp)
for file in "${files[@]}"; do
  "${prefix}g++" -std=c++20 -O3 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -Isrc -c "$file" -o "$objects/$(basename "$file" .cpp).o"
done
"${prefix}g++" -static "$objects"/*.o -o "$objects/products_test"

count() { "${prefix}objdump" -d --no-show-raw-insn "$objects/$1.o" | python3 tests/ops/arm/count_loop.py "${@:2}"; }
count neon fmla 4 1.35
count arm_bfloat16 bfmmla 16 1.6
if [ -z "$emulator" ]; then
  "$objects/products_test"
else
  for processor in max cortex-a57; do "$emulator" -cpu "$processor" "$objects/products_test"; done
fi
