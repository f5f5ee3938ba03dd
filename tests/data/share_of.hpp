// Batches that need no file.
#pragma once

#include "base/range.hpp"
#include "comm/communicator.hpp"
#include "data/batch.hpp"

namespace sluice::test {

/// The sequences of a whole batch that BatchSource would give this rank of `comm`.
[[nodiscard]] inline Batch share_of(const Batch& whole, const Communicator& comm) {
  const Range share = equal_part(whole.sequences, comm.size(), comm.rank());
  const std::int64_t width = whole.length + 1;
  const auto rows = [&](const auto& values) {
    auto out = values;
    if (!values.empty()) out.assign(values.begin() + share.begin * width, values.begin() + share.end * width);
    return out;
  };
  return {share.count(),        whole.length,         rows(whole.ids),          rows(whole.marks),
          whole.global_targets, whole.global_padding, whole.separates_documents};
}

}  // namespace sluice::test
