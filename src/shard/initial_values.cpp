#include "shard/initial_values.hpp"

#include "base/random.hpp"
#include "comm/position.hpp"
#include "device/copy.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kPieceElements = 256 * std::int64_t{1024};

class ShardFiller {
 public:
  ShardFiller(ShardArena& arena, const ParameterManifest& manifest, const TensorValues& values)
      : arena_(arena), manifest_(manifest), source_(values) {}

  template <class Wanted>
  void fill(int unit, Wanted wanted) {
    const FlatLayout& layout = arena_.plan().layouts().units[static_cast<std::size_t>(unit)];
    for (const Placement& placement : layout.placements()) {
      if (placement.block_elements == 0 || !wanted(manifest_[placement.tensor])) continue;
      position::begin("initial_values", unit);
      arena_.plan().owned_runs(placement.tensor, arena_.rank(), [&](const ShardPlan::OwnedRun& run) {
        fill_run(manifest_[placement.tensor], run);
      });
    }
  }

 private:
  void fill_run(const TensorInfo& tensor, const ShardPlan::OwnedRun& run) {
    values_.resize(std::max(values_.size(), static_cast<std::size_t>(std::min(kPieceElements, run.count))));
    std::byte* const out = arena_.data() + run.arena_begin * size_of(arena_.dtype());
    for (std::int64_t done = 0; done < run.count;) {
      const std::int64_t count = std::min(kPieceElements, run.count - done);
      source_(tensor, run.tensor_begin + done, count, values_.data());
      HostDraft target(out + done * size_of(arena_.dtype()), count * size_of(arena_.dtype()));
      convert_elements(values_.data(), DType::kFloat32, target.data(), arena_.dtype(), count);
      target.save();
      done += count;
    }
  }

  ShardArena& arena_;
  const ParameterManifest& manifest_;
  const TensorValues& source_;
  std::vector<float> values_;
};

template <class Wanted>
void fill_shards(ShardArena& arena, const ParameterManifest& manifest, const TensorValues& values,
                 Wanted wanted) {
  ShardFiller filler(arena, manifest, values);
  const int units = static_cast<int>(arena.plan().layouts().units.size());
  for (int unit = 0; unit < units; ++unit) filler.fill(unit, wanted);
}

}  // namespace

void initial_values(const TensorInfo& tensor, float standard_deviation, std::uint64_t seed,
                    std::int64_t begin, std::int64_t count, float* out) {
  const RandomStream stream(seed, tensor.name);
  switch (tensor.initial) {
    case InitialValues::kZeros:
      std::fill_n(out, count, 0.0f);
      return;
    case InitialValues::kOnes:
      std::fill_n(out, count, 1.0f);
      return;
    case InitialValues::kLogOfPlace:
      for (std::int64_t i = 0; i < count; ++i) out[i] = std::log(static_cast<float>(begin + i + 1));
      return;
    case InitialValues::kLogOfUniform16:
      stream.uniform(begin, count, out);
      std::transform(out, out + count, out, [](float u) { return std::log(16.0f * u); });
      return;
    case InitialValues::kLogOfUniformFrom1:
      stream.uniform(begin, count, out);
      std::transform(out, out + count, out, [](float u) { return std::log(1 + 15 * u); });
      return;
    case InitialValues::kTimeSteps:
      stream.uniform(begin, count, out);
      std::transform(out, out + count, out, [](float u) {
        const float step = 0.001f * std::pow(100.0f, u);
        return step + std::log(-std::expm1(-step));
      });
      return;
    case InitialValues::kUniformByColumns: {
      const float bound = 1 / std::sqrt(static_cast<float>(tensor.shape.back()));
      stream.uniform(begin, count, out);
      std::transform(out, out + count, out, [=](float u) { return (2 * u - 1) * bound; });
      return;
    }
    case InitialValues::kByRole:
      break;
  }
  if (tensor.role == Role::kNorm)
    std::fill_n(out, count, 1.0f);
  else
    stream.normal(begin, count, standard_deviation, out);
}

void initialize_shards(ShardArena& arena, const ParameterManifest& manifest, float standard_deviation,
                       std::uint64_t seed) {
  const TensorValues values = [=](const TensorInfo& tensor, std::int64_t begin, std::int64_t count,
                                  float* out) {
    initial_values(tensor, standard_deviation, seed, begin, count, out);
  };
  fill_shards(arena, manifest, values, [](const TensorInfo&) { return true; });
  std::vector<float> buffers(static_cast<std::size_t>(arena.buffer_elements()));
  for (const BufferPlace& buffer : arena.plan().layouts().buffers)
    values(manifest[buffer.tensor], 0, buffer.count, buffers.data() + buffer.offset);
  if (!buffers.empty())
    copy_bytes(arena.buffers(), buffers.data(), arena.buffer_elements() * size_of(DType::kFloat32));
}

void fill_adapters(ShardArena& arena, const ParameterManifest& manifest, const TensorValues& values) {
  fill_shards(arena, manifest, values, [](const TensorInfo& tensor) { return !tensor.adapts.empty(); });
}

}  // namespace sluice
