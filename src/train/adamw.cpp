#include "train/adamw.hpp"

#include "ops/buffers/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

float* floats(const ShardArena& arena) { return reinterpret_cast<float*>(arena.data()); }

}  // namespace

AdamW::AdamW(const ParameterManifest& manifest, ShardArena& weights, const AdamWOptions& options)
    : options_(options),
      weights_(weights),
      first_moment_(weights.plan(), weights.rank(), DType::kFloat32, "first moment"),
      second_moment_(weights.plan(), weights.rank(), DType::kFloat32, "second moment"),
      spans_(find_spans(manifest, weights.plan(), weights.rank())) {
  if (weights.dtype() == DType::kFloat32) return;
  master_.emplace(weights.plan(), weights.rank(), DType::kFloat32, "master weights");
  ops::widen_weights(weights.data(), weights.dtype(), floats(*master_),
                     weights.plan().arena_elements(weights.rank()));
}

void AdamW::update(const ShardArena& gradients, double rate, double gradient_scale) {
  ++updates_;
  const auto t = static_cast<double>(updates_);
  ops::AdamWStep step{.lr = rate,
                      .beta1 = options_.betas[0],
                      .beta2 = options_.betas[1],
                      .eps = options_.eps,
                      .weight_decay = 0,
                      .bias_correction1 = 1 - std::pow(options_.betas[0], t),
                      .bias_correction2 = 1 - std::pow(options_.betas[1], t),
                      .grad_scale = gradient_scale};
  for (const Span& span : spans_) {
    step.weight_decay = span.decays ? options_.weight_decay : 0;
    std::byte* rounded = master_ ? weights_.data() + span.begin * size_of(weights_.dtype()) : nullptr;
    ops::adamw_update(floats(master()) + span.begin, floats(first_moment_) + span.begin,
                      floats(second_moment_) + span.begin, floats(gradients) + span.begin, span.count, step,
                      rounded, weights_.dtype());
  }
}

std::vector<AdamW::Span> AdamW::find_spans(const ParameterManifest& manifest, const ShardPlan& plan,
                                           int rank) {
  std::vector<Span> spans;
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit) {
    for (const Placement& placement : plan.layouts().units[static_cast<std::size_t>(unit)].placements()) {
      const TensorInfo& tensor = manifest[placement.tensor];
      if (tensor.kind != TensorKind::kParameter) continue;
      plan.for_each_owned_run(unit, placement, rank, [&](const ShardPlan::OwnedRun& run) {
        spans.push_back({run.arena_begin, run.count, tensor.shape.size() >= 2});
      });
    }
  }
  return merged(std::move(spans));
}

std::vector<AdamW::Span> AdamW::merged(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> out;
  for (const Span& span : spans) {
    const bool extends =
        !out.empty() && out.back().decays == span.decays && out.back().begin + out.back().count == span.begin;
    if (extends) {
      out.back().count += span.count;
    } else {
      out.push_back(span);
    }
  }
  return out;
}

}  // namespace sluice
