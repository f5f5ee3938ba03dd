// The tile registers of a processor (AMX): whether it has them, and the instructions that use them. All use
// of AMX is in this file, so that tests can replace it with an emulation. Internal to src/ops.
#pragma once

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::ops::cpu::tiles {

inline bool processor_has_registers() {
  constexpr unsigned kFeatures = 7, kBfloat16 = 1U << 22, kTiles = 1U << 24;  // Bits of EDX in CPUID leaf 7.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (d & kBfloat16) != 0 && (d & kTiles) != 0;
}

/// Asks the system for permission, which a process needs before its first use of the registers.
inline bool system_allows_registers() {
  // Constants of linux/arch/x86/include/uapi/asm/prctl.h.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace sluice::ops::cpu::tiles
