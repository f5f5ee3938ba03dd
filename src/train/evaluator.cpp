#include "train/evaluator.hpp"

#include "base/error.hpp"
#include "ops/buffers/host_values.hpp"
#include "train/layer_walk.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace sluice {

Evaluator::Evaluator(Communicator& comm, const ModelConfig& model, StageBinder& binder,
                     std::int64_t sequence_length, std::int64_t micro_batch_sequences)
    : comm_(comm),
      binder_(binder),
      decoder_(model, binder_.views(), sequence_length, binder_.vocabulary()),
      sequence_length_(sequence_length),
      micro_batch_sequences_(micro_batch_sequences) {}

namespace {

/// What the head makes beside losses for these settings.
ops::BesideTargets beside_of(const ScoreSettings& settings, const MicroBatch& micro_batch) {
  switch (settings.distribution) {
    case ScoreDistribution::kNone:
      break;
    case ScoreDistribution::kSampled:
      return ops::DrawnTokens{settings.samples, settings.temperature,
                              static_cast<std::uint64_t>(settings.seed), micro_batch.places};
    case ScoreDistribution::kTop:
      return ops::TopTokens{settings.top, settings.temperature};
  }
  return {};
}

void append(const ops::TokenDistribution& found, TokenDistributions& all) {
  if (!found.ids.defined()) return;
  all.width = found.ids.size(1);
  std::ranges::copy(ops::host_values<std::int32_t>(found.ids), std::back_inserter(all.ids));
  std::ranges::copy(ops::host_values<float>(found.values), std::back_inserter(all.values));
  if (found.rest.defined())
    std::ranges::copy(ops::host_values<float>(found.rest), std::back_inserter(all.rest));
}

}  // namespace

TokenScores Evaluator::scores(const Batch& share, const ScoreSettings& settings) {
  const Decoder* const only = &decoder_;
  return std::move(scores_of(std::span(&only, 1), share, ChosenPrompts::kMasked, settings).front());
}

PreferenceSums Evaluator::preferences(const Batch& share, const PreferSettings& settings) {
  std::vector<const Decoder*> decoders{&decoder_};
  std::optional<Decoder> reference;
  if (settings.walks_reference()) {
    reference.emplace(decoder_.config(), binder_.views(), sequence_length_, binder_.vocabulary(), nullptr,
                      Adapters::kLeftOut);
    decoders.push_back(&*reference);
  }
  const std::vector<TokenScores> scores = scores_of(decoders, share, chosen_prompts(settings));
  const Range all{0, share.sequences};
  PreferenceBatch pairs(settings, share);
  if (reference) pairs.set_reference(all, scores.back().losses);
  PreferenceSums sums{};
  pairs.add(all, scores.front().losses, sums);
  return sums;
}

/// Collective over the communicator. Scores under each of the decoders.
std::vector<TokenScores> Evaluator::scores_of(std::span<const Decoder* const> decoders, const Batch& share,
                                              ChosenPrompts prompts, const ScoreSettings& settings) {
  const at::NoGradGuard no_grad;
  const std::vector<MicroBatch> micro_batches =
      split_batch(share, micro_batch_sequences_, decoder_.device(), prompts);
  std::vector<WalkedPass> passes;
  for (const Decoder* decoder : decoders)
    passes.push_back(inference_pass(*decoder, micro_batches, binder_.exchange()));
  MicroBatch none;  // of a rank that has fewer than others
  none.places = at::empty({0}, at::kLong);
  LayerWalk walk(binder_, decoder_, inputs_of(micro_batches));
  const std::vector<std::vector<at::Tensor>> hidden = walk.forward(passes);

  std::vector<TokenScores> scores(passes.size());
  std::int64_t broken = 0;
  {
    const StageBinder::GatheredStage bound = walk.head();
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      for (std::size_t i = 0; i < micro_batches.size(); ++i) {
        const Decoder& decoder = *decoders[pass];
        const Decoder::Head found =
            decoder.head(hidden[pass][i], micro_batches[i].targets, ops::NoLossGradient(),
                         beside_of(settings, micro_batches[i]));
        std::ranges::copy(ops::host_values<double>(found.losses), std::back_inserter(scores[pass].losses));
        std::ranges::copy(ops::host_values<std::uint8_t>(found.greedy),
                          std::back_inserter(scores[pass].greedy));
        append(found.distribution, scores[pass].distributions);
      }
      for (std::size_t i = micro_batches.size(); i < walk.head_rounds(); ++i)
        decoders[pass]->serve_head(ops::NoLossGradient(), beside_of(settings, none));
      broken += std::ranges::count_if(scores[pass].losses, [](double loss) { return !std::isfinite(loss); });
    }
  }
  comm_.all_reduce_sum(std::span(&broken, 1));
  if (broken > 0)
    fail({ExitCode::kNumerics, "train.not_finite"},
         "the loss of a token is not finite, expected a number. Likely cause: broken weights; evaluate "
         "an earlier checkpoint");
  return scores;
}

}  // namespace sluice
