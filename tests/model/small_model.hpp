// A small random model, whole in this process.
#pragma once

#include "model/architecture.hpp"
#include "model/config_text.hpp"
#include "shard/arena.hpp"
#include "shard/initial_values.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// The model of config_with(), with new adapters of rank 2 on `adapted` weights.
[[nodiscard]] inline ModelDescription described(const nlohmann::json& changes, DType dtype,
                                                const std::vector<std::string>& adapted) {
  ModelDescription model = describe_model_text(config_with(changes), "config.json", dtype);
  for (const std::string& name : adapted) model.adapters.tensors.push_back({name, 2, 1.5});
  if (!adapted.empty()) add_adapters(model.manifest, model.adapters);
  return model;
}

/// A model, its units, its weights on one rank: equal wherever it is made. Stays where it was made.
struct SmallModel {
  explicit SmallModel(const nlohmann::json& changes = nlohmann::json::object(), DType dtype = DType::kFloat32,
                      const std::vector<std::string>& adapted = {},
                      Vocabulary vocabulary = Vocabulary::kGathered)
      : SmallModel(described(changes, dtype, adapted), dtype, vocabulary) {}
  SmallModel(ModelDescription of, DType dtype, Vocabulary vocabulary = Vocabulary::kGathered)
      : description(std::move(of)),
        layouts(make_unit_layouts(description.manifest, 1, {}, vocabulary)),
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
