#include "adapter/merge.hpp"

#include "base/error.hpp"
#include "manifest/adapter.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// The adapted weight whose lora_B is tensor `b`; nothing if it is no lora_B.
std::optional<AdaptedWeight> adapted_by(const ParameterManifest& manifest, int b) {
  const TensorInfo& part = manifest[b];
  const auto weight = part.adapts.empty() ? std::nullopt : manifest.find(part.adapts);
  if (!weight) return std::nullopt;
  const AdapterNames names = adapter_names(manifest, *weight);
  if (part.name != names.b) return std::nullopt;
  const auto a = manifest.find(names.a);
  SLUICE_ASSERT(a.has_value(), "{} has no lora_A", part.name);
  const std::vector<std::int64_t>& shape = manifest[*weight].shape;
  return AdaptedWeight{*weight,
                       *a,
                       b,
                       shape.size() == 3 ? shape[0] : 1,
                       shape[shape.size() - 2],
                       shape.back(),
                       part.shape.back(),
                       static_cast<float>(part.scale)};
}

class Merger {
 public:
  Merger(Communicator& comm, const ShardValues& adapters, ShardArena& arena, std::int64_t staging_bytes)
      : comm_(comm),
        adapters_(adapters),
        arena_(arena),
        staging_(staging_bytes / static_cast<std::int64_t>(sizeof(float))) {}

  /// Merges rows of some experts, or a part of one expert's, at a time.
  void merge(const AdaptedWeight& adapted) {
    const std::int64_t of_expert = adapted.rank * (adapted.in + adapted.out);
    const std::int64_t experts = std::clamp<std::int64_t>(staging_ / of_expert, 1, adapted.experts);
    const std::int64_t rows = experts > 1 || adapted.rank == 0
                                  ? adapted.out
                                  : std::clamp<std::int64_t>(staging_ / adapted.rank, 1, adapted.out);
    for (std::int64_t e = 0; e < adapted.experts; e += experts) {
      const Range some{e, std::min(e + experts, adapted.experts)};
      gather(adapted.a, {some.begin * adapted.rank * adapted.in, some.end * adapted.rank * adapted.in}, a_);
      for (std::int64_t row = 0; row < adapted.out; row += rows) {
        const Range lines =
            experts > 1 ? Range{some.begin * adapted.out, some.end * adapted.out}
                        : Range{e * adapted.out + row, e * adapted.out + std::min(row + rows, adapted.out)};
        gather(adapted.b, {lines.begin * adapted.rank, lines.end * adapted.rank}, b_);
        add(adapted, some.begin, lines);
      }
    }
  }

  [[nodiscard]] std::vector<StoredChange> take_changes() { return std::move(changes_); }

 private:
  /// Collective over the communicator. Gathers elements of a tensor from the ranks that own them, on every
  /// rank.
  void gather(int tensor, Range elements, std::vector<float>& out) {
    const ShardPlan& plan = adapters_.plan();
    own_.clear();
    plan.owned_runs(tensor, elements, comm_.rank(), [&](const ShardPlan::OwnedRun& run) {
      own_.resize(own_.size() + static_cast<std::size_t>(run.count));
      adapters_.read(run.arena_begin, run.count, DType::kFloat32,
                     reinterpret_cast<std::byte*>(own_.data() + own_.size() - run.count));
    });
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(comm_.size()));
    plan.owned_runs(tensor, elements, [&](int rank, const ShardPlan::OwnedRun& run) {
      bytes[static_cast<std::size_t>(rank)] += run.count * static_cast<std::int64_t>(sizeof(float));
    });
    all_.resize(static_cast<std::size_t>(elements.count()));
    comm_.all_gather(own_.data(), all_.data(), bytes).wait();
    out.resize(all_.size());
    const float* next = all_.data();
    for (int rank = 0; rank < comm_.size(); ++rank)
      plan.owned_runs(tensor, elements, rank, [&](const ShardPlan::OwnedRun& run) {
        std::copy_n(next, run.count, out.begin() + (run.tensor_begin - elements.begin));
        next += run.count;
      });
  }

  /// Adds the adapter to `lines` of the weight [experts * out, in], as far as this rank has them.
  void add(const AdaptedWeight& adapted, std::int64_t first_expert, Range lines) {
    const ShardPlan& plan = arena_.plan();
    const bool is_stored = plan.is_stored(plan.layouts().unit_of(adapted.weight));
    plan.owned_runs(
        adapted.weight, {lines.begin * adapted.in, lines.end * adapted.in}, arena_.rank(),
        [&](const ShardPlan::OwnedRun& run) {
          const std::int64_t end = run.tensor_begin + run.count;
          if (is_stored) return keep(adapted, first_expert, lines.begin, run);
          for (std::int64_t at = run.tensor_begin; at < end;) {
            const std::int64_t line = at / adapted.in;
            const std::int64_t count = std::min(end, (line + 1) * adapted.in) - at;
            add_to_line(
                adapted, b_.data() + (line - lines.begin) * adapted.rank,
                a_.data() + (line / adapted.out - first_expert) * adapted.rank * adapted.in + at % adapted.in,
                count, run.arena_begin + at - run.tensor_begin);
            at += count;
          }
        });
  }

  void keep(const AdaptedWeight& adapted, std::int64_t first_expert, std::int64_t first_line,
            const ShardPlan::OwnedRun& run) {
    const std::int64_t line = run.tensor_begin / adapted.in,
                       last = (run.tensor_begin + run.count - 1) / adapted.in;
    const auto a = a_.begin() + (line / adapted.out - first_expert) * adapted.rank * adapted.in;
    changes_.push_back({adapted,
                        run.arena_begin,
                        run.count,
                        run.tensor_begin,
                        {a, a + adapted.rank * adapted.in},
                        {b_.begin() + (line - first_line) * adapted.rank,
                         b_.begin() + (last + 1 - first_line) * adapted.rank}});
  }

  /// Adds the adapter to `count` elements of one row: b [rank] times columns of a [rank, in].
  void add_to_line(const AdaptedWeight& adapted, const float* b, const float* a, std::int64_t count,
                   std::int64_t arena) {
    std::byte* weights = arena_.data() + arena * size_of(arena_.dtype());
    line_.resize(static_cast<std::size_t>(count));
    convert_elements(weights, arena_.dtype(), line_.data(), DType::kFloat32, count);
    add_adapter_to_row(adapted, b, a, count, line_.data(), change_);
    convert_elements(line_.data(), DType::kFloat32, weights, arena_.dtype(), count);
  }

  Communicator& comm_;
  const ShardValues& adapters_;
  ShardArena& arena_;
  std::int64_t staging_;  ///< elements of staging memory
  std::vector<StoredChange> changes_;
  std::vector<float> a_, b_, own_, all_, change_, line_;
};

}  // namespace

std::vector<AdaptedWeight> adapted_weights(const ParameterManifest& manifest) {
  std::vector<AdaptedWeight> out;
  for (int i = 0; i < static_cast<int>(manifest.tensors().size()); ++i)
    if (const auto adapted = adapted_by(manifest, i)) out.push_back(*adapted);
  return out;
}

void add_adapter_to_row(const AdaptedWeight& adapted, const float* b, const float* a, std::int64_t count,
                        float* weights, std::vector<float>& change) {
  change.assign(static_cast<std::size_t>(count), 0.0f);
  for (std::int64_t i = 0; i < adapted.rank; ++i) {
    const float factor = b[i];
    const float* row = a + i * adapted.in;
    for (std::int64_t k = 0; k < count; ++k) change[static_cast<std::size_t>(k)] += factor * row[k];
  }
  for (std::size_t k = 0; k < change.size(); ++k) weights[k] += adapted.scale * change[k];
}

void require_mergeable(const ParameterManifest& manifest) {
  for (const TensorInfo& tensor : manifest.tensors()) {
    const auto weight = tensor.adapts.empty() ? std::nullopt : manifest.find(tensor.adapts);
    if (!weight || manifest[*weight].tied_to.empty()) continue;
    fail(ExitCode::kBadConfig,
         "export.adapters: found \"merge\", expected \"keep\", because {} is adapted and shares its storage "
         "with {}, which would change with it",
         tensor.adapts, manifest[*weight].tied_to);
  }
}

std::vector<StoredChange> merge_adapters(Communicator& comm, const ParameterManifest& manifest,
                                         const ShardValues& adapters, ShardArena& arena,
                                         std::int64_t staging_bytes) {
  Merger merger(comm, adapters, arena, staging_bytes);
  for (const AdaptedWeight& adapted : adapted_weights(manifest)) merger.merge(adapted);
  return merger.take_changes();
}

}  // namespace sluice
