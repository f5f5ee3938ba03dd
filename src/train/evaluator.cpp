#include "train/evaluator.hpp"

#include "base/error.hpp"
#include "ops/buffers/host_values.hpp"
#include "train/layer_walk.hpp"
#include "train/micro_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
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
  const std::vector<MicroBatch> micro_batches = split_batch(share, micro_batch_sequences_, decoder_.device());
  LayerWalk walk(binder_, decoder_, inputs_of(micro_batches));
  const std::vector<at::Tensor> hidden = walk.forward([&](int layer, std::size_t i, const at::Tensor& x) {
    SavedForRecompute record;
    RoutingSums unwanted;
    return decoder_.layer(layer, x, micro_batches[i].documents, record, unwanted, {}, binder_.exchange());
  });

  std::vector<double> losses;
  losses.reserve(static_cast<std::size_t>(share.sequences * share.length));
  {
    const StageBinder::GatheredStage bound = walk.head();
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const at::Tensor found =
          decoder_.head(hidden[i], micro_batches[i].targets, ops::NoLossGradient()).losses;
      std::ranges::copy(ops::host_values<double>(found), std::back_inserter(losses));
    }
  }
  std::int64_t broken = std::ranges::count_if(losses, [](double loss) { return !std::isfinite(loss); });
  comm_.all_reduce_sum(std::span(&broken, 1));
  if (broken > 0)
    fail({ExitCode::kNumerics, "train.not_finite"},
         "the loss of a token is not finite, expected a number. Likely cause: broken weights; evaluate "
         "an earlier checkpoint");
  return losses;
}

}  // namespace sluice
