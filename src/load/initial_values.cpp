#include "load/initial_values.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kPieceElements = 64 * 1024;

/// The part of a run that lies in a range of the unit's buffer.
Run clipped(Run run, const Range& range) {
  const std::int64_t skipped = std::max<std::int64_t>(range.begin - run.unit_begin, 0);
  const std::int64_t end = std::min(run.unit_begin + run.count, range.end);
  run.tensor_begin += skipped;
  run.unit_begin += skipped;
  run.count = std::max<std::int64_t>(end - run.unit_begin, 0);
  return run;
}

class ShardFiller {
 public:
  ShardFiller(ShardArena& arena, const ParameterManifest& manifest, float standard_deviation,
              std::uint64_t seed)
      : arena_(arena), manifest_(manifest), standard_deviation_(standard_deviation), seed_(seed) {}

  void fill(int unit) {
    const FlatLayout& layout = arena_.plan().layouts().units[static_cast<std::size_t>(unit)];
    const Range owned = arena_.plan().owned(unit, arena_.rank());
    for (const Placement& placement : layout.placements()) {
      if (placement.block_elements == 0) continue;
      FlatLayout::for_each_run(
          placement, 0, placement.blocks * placement.block_elements, [&](const Run& run) {
            const Run mine = clipped(run, owned);
            std::byte* out =
                arena_.unit_data(unit) + (mine.unit_begin - owned.begin) * size_of(arena_.dtype());
            fill_run(manifest_[placement.tensor], mine, out);
          });
    }
  }

 private:
  void fill_run(const TensorInfo& tensor, const Run& run, std::byte* out) {
    for (std::int64_t done = 0; done < run.count;) {
      const std::int64_t count = std::min(kPieceElements, run.count - done);
      initial_values(tensor, standard_deviation_, seed_, run.tensor_begin + done, count, values_.data());
      convert_elements(values_.data(), DType::kFloat32, out + done * size_of(arena_.dtype()), arena_.dtype(),
                       count);
      done += count;
    }
  }

  ShardArena& arena_;
  const ParameterManifest& manifest_;
  float standard_deviation_;
  std::uint64_t seed_;
  std::vector<float> values_ = std::vector<float>(kPieceElements);
};

}  // namespace

void initial_values(const TensorInfo& tensor, float standard_deviation, std::uint64_t seed,
                    std::int64_t begin, std::int64_t count, float* out) {
  if (tensor.role == Role::kNorm)
    std::fill_n(out, count, 1.0f);
  else if (tensor.name.ends_with(".bias"))
    std::fill_n(out, count, 0.0f);
  else
    RandomStream(seed, tensor.name).normal(begin, count, standard_deviation, out);
}

void initialize_shards(ShardArena& arena, const ParameterManifest& manifest, float standard_deviation,
                       std::uint64_t seed) {
  ShardFiller filler(arena, manifest, standard_deviation, seed);
  const int units = static_cast<int>(arena.plan().layouts().units.size());
  for (int unit = 0; unit < units; ++unit) filler.fill(unit);
}

}  // namespace sluice
