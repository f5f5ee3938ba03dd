// A small random model, whole in this process.
#pragma once

#include "model/architecture.hpp"
#include "model/config_text.hpp"
#include "shard/arena.hpp"
#include "shard/initial_values.hpp"

namespace sluice::test {

/// A model, its units, its weights on one rank: equal wherever it is made. Stays where it was made.
struct SmallModel {
  explicit SmallModel(const nlohmann::json& changes = nlohmann::json::object(), DType dtype = DType::kFloat32)
      : description(describe_model_text(config_with(changes), "config.json", dtype)),
        layouts(make_unit_layouts(description.manifest)),
        plan(layouts, {.world = 1}),
        weights(plan, 0, dtype, MemoryKind::kPrivate, "weights") {
    initialize_shards(weights, description.manifest, 0.2F, 7);
  }
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;

  const ModelDescription description;
  const UnitLayouts layouts;
  const ShardPlan plan;
  ShardArena weights;
};

}  // namespace sluice::test
