#include "generate/cached_forward.hpp"

#include "base/error.hpp"
#include "ops/buffers/host_values.hpp"
#include "ops/runtime/no_view_tracking.hpp"
#include "train/layer_walk.hpp"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

at::Tensor ids_of(std::span<const NewTokens> parts, at::Device device) {
  std::vector<std::int64_t> ids;
  for (const NewTokens& part : parts) ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  return ops::tensor_of<std::int64_t>(ids, device);
}

/// Rows of each part's last token.
at::Tensor last_rows(std::span<const SequencePart> parts, at::Device device) {
  std::vector<std::int64_t> rows;
  std::int64_t end = 0;
  for (const SequencePart& part : parts) rows.push_back((end += part.tokens) - 1);
  return ops::tensor_of<std::int64_t>(rows, device);
}

}  // namespace

CachedForward::CachedForward(StageBinder& binder, const ModelConfig& model, std::int64_t slots,
                             std::int64_t positions)
    : binder_(binder),
      decoder_(model, binder.views(), positions, binder.vocabulary()),
      cache_(model, slots, positions, binder.weights().dtype(), decoder_.device()),
      sequences_(static_cast<std::size_t>(slots)) {}

void CachedForward::clear(std::int64_t slot) {
  cache_.clear(slot);
  sequences_[static_cast<std::size_t>(slot)].clear();
}

void CachedForward::keep_beginning(std::int64_t slot, std::span<const std::int64_t> ids) {
  SLUICE_ASSERT(!ids.empty(), "a sequence has no tokens");
  std::vector<std::int64_t>& held = sequences_[static_cast<std::size_t>(slot)];
  const auto before_last = ids.first(ids.size() - 1);
  const auto kept = std::ranges::mismatch(held, before_last).in1 - held.begin();
  if (kept < std::ssize(held) && !cache_.can_be_shortened()) return clear(slot);
  held.resize(static_cast<std::size_t>(kept));
}

at::Tensor CachedForward::append(std::span<const NewTokens> news, Wanted wanted) {
  ++passes_;
  const at::NoGradGuard no_grad;
  const ops::NoViewTracking no_view_tracking;
  const at::Tensor logits = logits_of(ids_of(news, decoder_.device()), add_to_sequences(news), wanted);
  std::int64_t broken = at::isfinite(logits).all().item<bool>() ? 0 : 1;
  comm().all_reduce_sum(std::span(&broken, 1));
  if (broken > 0)
    fail({ExitCode::kNumerics, "train.not_finite"},
         "a logit is not finite, expected a number. Likely cause: broken weights; answer from an "
         "earlier checkpoint");
  return logits;
}

std::vector<SequencePart> CachedForward::add_to_sequences(std::span<const NewTokens> news) {
  std::vector<SequencePart> parts;
  for (const NewTokens& part : news) {
    std::vector<std::int64_t>& sequence = sequences_[static_cast<std::size_t>(part.slot)];
    parts.push_back({part.slot, std::ssize(sequence), std::ssize(part.ids)});
    sequence.insert(sequence.end(), part.ids.begin(), part.ids.end());
    SLUICE_ASSERT(!part.ids.empty() && std::ssize(sequence) <= positions(), "found {} tokens, expected {}",
                  sequence.size(), positions());
  }
  return parts;
}

/// Computes logits; the newest tokens of all sequences are one micro-batch, ids [tokens].
at::Tensor CachedForward::logits_of(const at::Tensor& ids, std::span<const SequencePart> parts,
                                    Wanted wanted) {
  const RotaryTables rotary = decoder_.rotary_rows(parts);
  LayerWalk walk(binder_, decoder_, parts.empty() ? std::vector<at::Tensor>() : std::vector{ids});
  const std::vector<at::Tensor> hidden =
      walk.forward([&](int layer, std::size_t /*micro_batch*/, const at::Tensor& x) {
        RoutingSums unwanted;
        RoutingRecord record;
        return decoder_.mlp_sublayer(layer, decoder_.token_mixer(layer, x, parts, rotary, cache_), record,
                                     unwanted, {}, binder_.exchange());
      });
  const StageBinder::GatheredStage bound = walk.head();
  if (hidden.empty()) return decoder_.logits(decoder_.no_tokens());
  const at::Tensor& last = hidden.front();
  return decoder_.logits(wanted == Wanted::kAll ? last
                                                : last.index_select(0, last_rows(parts, last.device())));
}

}  // namespace sluice
