#include "train/evaluator.hpp"

#include "base/error.hpp"
#include "ops/buffers/host_values.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>

namespace sluice {

Evaluator::Evaluator(Communicator& comm, const ModelConfig& model, StageBinder& binder,
                     std::int64_t sequence_length, std::int64_t micro_batch_sequences)
    : comm_(comm),
      binder_(binder),
      decoder_(model, binder_.views(), sequence_length),
      micro_batch_sequences_(micro_batch_sequences) {}

std::vector<double> Evaluator::losses(const Batch& share) {
  const at::NoGradGuard no_grad;
  std::vector<MicroBatch> micro_batches = split_batch(share, micro_batch_sequences_);
  forward(micro_batches);

  std::vector<double> losses;
  losses.reserve(static_cast<std::size_t>(share.sequences * share.length));
  {
    const StageBinder::GatheredStage bound(binder_, binder_.stages().head, nullptr);
    for (const MicroBatch& micro_batch : micro_batches) {
      const at::Tensor found =
          decoder_.head(micro_batch.hidden, micro_batch.targets, /*loss_scale=*/1, /*want_grad=*/false)
              .losses;
      std::ranges::copy(ops::host_values<double>(found), std::back_inserter(losses));
    }
  }
  std::int64_t broken = std::ranges::count_if(losses, [](double loss) { return !std::isfinite(loss); });
  comm_.all_reduce_sum(std::span(&broken, 1));
  if (broken > 0)
    fail(ExitCode::kNumerics, "the loss of a token is not finite. Likely cause: weights that are broken");
  return losses;
}

void Evaluator::forward(std::vector<MicroBatch>& micro_batches) {
  const std::size_t rounds = binder_.exchange().begin(token_counts(micro_batches));
  binder_.begin_pass(OffloadedUnits::Pass::kForward);
  const StagePlan& stages = binder_.stages();
  {
    const std::optional<RowExchange> rows = binder_.embedding_rows(inputs_of(micro_batches));
    const StageBinder::GatheredStage bound(binder_, stages.embed, &stages.after(-1), rows ? &*rows : nullptr);
    for (MicroBatch& micro_batch : micro_batches) micro_batch.hidden = decoder_.embed(micro_batch.inputs);
  }
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    const StageBinder::GatheredStage bound(binder_, stages.layers[static_cast<std::size_t>(layer)],
                                           &stages.after(layer));
    RoutingSums unused = decoder_.no_routing(layer);
    for (MicroBatch& micro_batch : micro_batches) {
      SavedForRecompute record;
      micro_batch.hidden = decoder_.layer(layer, micro_batch.hidden, micro_batch.documents, record, unused,
                                          {}, binder_.exchange());
    }
    for (std::size_t round = micro_batches.size(); round < rounds; ++round)
      decoder_.participate_without_tokens(layer, binder_.exchange());
  }
}

}  // namespace sluice
