// The options of a job's batches.
#pragma once

#include "data/batch_source.hpp"
#include "job/blueprint.hpp"

namespace sluice {

/// From the tables [data] and [train]; an evaluation takes every token once.
[[nodiscard]] BatchOptions batch_options(const Blueprint& blueprint);

}  // namespace sluice
