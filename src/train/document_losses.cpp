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

std::vector<DocumentLoss> DocumentLosses::add(std::int64_t length, std::span<const TokenMark> marks,
                                              std::span<const double> losses) {
  const std::int64_t sequences = std::ssize(losses) / length;
  SLUICE_ASSERT(std::ssize(losses) == sequences * length && std::ssize(marks) == sequences * (length + 1),
                "found {} document marks and {} losses, expected whole sequences of {} tokens", marks.size(),
                losses.size(), length);
  std::vector<DocumentLoss> ended;
  auto mark = marks.begin();
  auto loss = losses.begin();
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    if (*mark++ == TokenMark::kBegins) begin(ended);
    for (std::int64_t t = 0; t < length; ++t, ++mark, ++loss) {
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
