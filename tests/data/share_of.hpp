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
  Batch own = whole;
  own.sequences = share.count();
  own.ids = rows(whole.ids);
  own.marks = rows(whole.marks);
  std::erase_if(own.pairs, [&](const PreferencePair& pair) {
    return pair.sequence < share.begin || pair.sequence >= share.end;
  });
  for (PreferencePair& pair : own.pairs) pair.sequence -= share.begin;
  return own;
}

}  // namespace sluice::test
