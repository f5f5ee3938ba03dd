#include "train/document_losses.hpp"

#include "base/error.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace sluice {

double DocumentLoss::loss() const {
  if (targets == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss_sum / static_cast<double>(targets);
}

double DocumentLoss::perplexity() const { return std::exp(loss()); }

void DocumentLosses::begin(std::vector<DocumentLoss>& ended) {
  if (documents_ > 0) ended.push_back(std::exchange(current_, {}));
  ++documents_;
}

std::vector<DocumentLoss> DocumentLosses::add(const Batch& batch, std::span<const double> losses) {
  SLUICE_ASSERT(
      batch.marks.size() == batch.ids.size() && std::ssize(losses) == batch.sequences * batch.length,
      "{} marks and {} losses for {} ids", batch.marks.size(), losses.size(), batch.ids.size());
  std::vector<DocumentLoss> ended;
  auto mark = batch.marks.begin();
  auto loss = losses.begin();
  for (std::int64_t sequence = 0; sequence < batch.sequences; ++sequence) {
    if (*mark++ == TokenMark::kBegins) begin(ended);
    for (std::int64_t t = 0; t < batch.length; ++t, ++mark, ++loss) {
      if (*mark == TokenMark::kBegins) begin(ended);
      if (*mark != TokenMark::kInside) continue;
      for (DocumentLoss* sum : {&current_, &total_}) {
        sum->loss_sum += *loss;
        ++sum->targets;
      }
    }
  }
  return ended;
}

std::vector<DocumentLoss> DocumentLosses::finish() {
  if (documents_ == 0) return {};
  return {std::exchange(current_, {})};
}

}  // namespace sluice
