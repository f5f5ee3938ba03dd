#include "generate/cached_forward.hpp"

#include "base/error.hpp"
#include "ops/buffers/host_values.hpp"
#include "ops/runtime/no_view_tracking.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace sluice {
namespace {

at::Tensor ids_of(std::span<const NewTokens> parts) {
  std::vector<std::int64_t> ids;
  for (const NewTokens& part : parts) ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  return ops::tensor_of<std::int64_t>(ids);
}

/// The rows of the parts' last tokens.
at::Tensor last_rows(std::span<const SequencePart> parts) {
  std::vector<std::int64_t> rows;
  std::int64_t end = 0;
  for (const SequencePart& part : parts) rows.push_back((end += part.tokens) - 1);
  return ops::tensor_of<std::int64_t>(rows);
}

}  // namespace

CachedForward::CachedForward(StageBinder& binder, const ModelConfig& model, std::int64_t slots,
                             std::int64_t positions)
    : binder_(binder),
      decoder_(model, binder.views(), positions),
      cache_(model, slots, positions, binder.weights().dtype()),
      sequences_(static_cast<std::size_t>(slots)) {}

void CachedForward::clear(std::int64_t slot) {
  cache_.clear(slot);
  sequences_[static_cast<std::size_t>(slot)].clear();
}

void CachedForward::keep_beginning(std::int64_t slot, std::span<const std::int64_t> ids) {
  SLUICE_ASSERT(!ids.empty(), "a sequence without tokens");
  std::vector<std::int64_t>& held = sequences_[static_cast<std::size_t>(slot)];
  const auto before_last = ids.first(ids.size() - 1);
  const auto kept = std::ranges::mismatch(held, before_last).in1 - held.begin();
  if (kept < std::ssize(held) && !cache_.can_be_shortened()) return clear(slot);
  held.resize(static_cast<std::size_t>(kept));
}

at::Tensor CachedForward::append(std::span<const NewTokens> news, Wanted wanted) {
  const at::NoGradGuard no_grad;
  const ops::NoViewTracking no_view_tracking;
  binder_.begin_pass(OffloadedUnits::Pass::kForward);
  std::vector<SequencePart> parts;
  for (const NewTokens& part : news) {
    std::vector<std::int64_t>& sequence = sequences_[static_cast<std::size_t>(part.slot)];
    parts.push_back({part.slot, std::ssize(sequence), std::ssize(part.ids)});
    sequence.insert(sequence.end(), part.ids.begin(), part.ids.end());
    SLUICE_ASSERT(!part.ids.empty() && std::ssize(sequence) <= positions(), "{} tokens of {}",
                  sequence.size(), positions());
  }
  at::Tensor logits = head(layers(embed(ids_of(news)), parts), parts, wanted);
  std::int64_t broken = at::isfinite(logits).all().item<bool>() ? 0 : 1;
  comm().all_reduce_sum(std::span(&broken, 1));
  if (broken > 0) fail(ExitCode::kNumerics, "a logit is not finite. Likely cause: weights that are broken");
  return logits;
}

at::Tensor CachedForward::embed(const at::Tensor& ids) {
  const StagePlan& stages = binder_.stages();
  const bool has_tokens = ids.numel() > 0;
  const std::optional<RowExchange> rows = binder_.embedding_rows(std::span(&ids, has_tokens ? 1 : 0));
  const StageBinder::GatheredStage bound(binder_, stages.embed, &stages.after(-1), rows ? &*rows : nullptr);
  if (!has_tokens) return {};
  return decoder_.embed(ids.unsqueeze(0)).squeeze(0);
}

at::Tensor CachedForward::layers(at::Tensor hidden, std::span<const SequencePart> parts) {
  std::vector<std::int64_t> tokens;
  if (hidden.defined()) tokens.push_back(hidden.size(0));
  const std::size_t rounds = binder_.exchange().begin(tokens);
  const ops::RotaryTable rotary = decoder_.rotary_rows(parts);
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    const StageBinder::GatheredStage bound(binder_, binder_.stages().layers[static_cast<std::size_t>(layer)],
                                           &binder_.stages().after(layer));
    RoutingSums unwanted;
    RoutingRecord record;
    if (hidden.defined())
      hidden = decoder_.mlp_sublayer(layer, decoder_.token_mixer(layer, hidden, parts, rotary, cache_),
                                     record, unwanted, {}, binder_.exchange());
    for (std::size_t round = tokens.size(); round < rounds; ++round)
      decoder_.participate_without_tokens(layer, binder_.exchange());
  }
  return hidden;
}

at::Tensor CachedForward::head(const at::Tensor& hidden, std::span<const SequencePart> parts, Wanted wanted) {
  const StageBinder::GatheredStage bound(binder_, binder_.stages().head, nullptr);
  if (!hidden.defined())
    return at::empty({0, decoder_.config().vocab_size}, ops::compute_options(at::kFloat));
  return decoder_.logits(wanted == Wanted::kAll ? hidden : hidden.index_select(0, last_rows(parts)));
}

}  // namespace sluice
