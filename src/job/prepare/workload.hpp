// Workload from a job's settings.
#pragma once

#include "config/job_config.hpp"
#include "device/memory.hpp"
#include "plan/workload.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Workload of a job. `memory`: kind of memory that ranks compute in. `growth_limit`: bytes that a rank may
/// hold above its process's own memory, if known. With memory.offload, what exceeds nine tenths of it goes to
/// a disk.
[[nodiscard]] Workload workload_of(const JobConfig& config, MemoryKind memory,
                                   std::optional<std::int64_t> growth_limit = std::nullopt);

/// Bytes of a growth limit that plans may use; the rest is left for memory that no plan counts.
[[nodiscard]] inline std::int64_t usable_bytes(std::int64_t growth_limit) {
  return growth_limit - growth_limit / 10;
}

/// Bytes that a rank holds while it receives the copy of another host's file during training, if hosts share
/// no file system; 0 if the job has no copies.
[[nodiscard]] std::int64_t copies_taken_bytes(const JobConfig& config);

/// Sets which activations a Workload keeps from forward to backward.
void set_recompute(Workload& work, Recompute recompute);
/// Sets what the job of a Workload does; its weights are kept.
void set_kind(Workload& work, JobKind kind);

}  // namespace sluice
