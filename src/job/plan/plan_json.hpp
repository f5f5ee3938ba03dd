// A job's plan as JSON: what `plan --json` and `check --json` print, and a run writes as plan.json.
#pragma once

#include "job/plan/job_plan.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What a command is told beyond the job.
struct PlanView {
  std::optional<std::int64_t>
      memory_limit;                       ///< bytes of a rank, by which its verdict is made; nothing: none is
  std::optional<std::int64_t> disk_rate;  ///< bytes a second of a rank's disk, for the seconds of a step
  std::optional<std::int64_t> link_rate{};  ///< bytes a second of a rank's link, for the seconds of a step
  ExpertShares expert_shares{};             ///< shares of choices by an earlier run; empty: even ones
};

/// The plan, its bytes by rank and purpose.
[[nodiscard]] nlohmann::json to_json(const JobPlan& plan, const PlanView& view = {});

/// Text of plan.json.
[[nodiscard]] std::string json_text(const JobPlan& plan);

/// Whether no rank that is listed needs more than `memory_limit` bytes, with activations, an estimate.
[[nodiscard]] bool fit(const std::vector<RankMemory>& ranks, std::int64_t memory_limit);

/// Whether a rank fits in `memory_limit` bytes: "fits" with activations, an estimate, "may not fit" without them alone,
/// or "does not fit", so that a run would refuse it.
[[nodiscard]] std::string_view verdict(const RankMemory& memory, std::int64_t memory_limit);
/// The verdict with its numbers: "does not fit, lacking 3.2 GB of 8 GB", of which activations are not counted.
[[nodiscard]] std::string verdict_text(const RankMemory& memory, std::int64_t memory_limit);

}  // namespace sluice
