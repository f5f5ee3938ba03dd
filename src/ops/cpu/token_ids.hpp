// Loops over token ids (int64, dense), and which documents tokens belong to. Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ops::cpu {

/// The first of `ids` that is outside [0, end) and not `exempt`.
[[nodiscard]] std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t end,
                                                    std::optional<std::int64_t> exempt = {});

/// ops::distinct_ids() on this processor.
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);

/// places [T] = where each of ids [T] stands in `rows`, which ascend and contain it; kNoPadding for the id
/// `padding`, which they need not contain.
void find_places(const at::Tensor& ids, std::span<const std::int64_t> rows, std::int64_t padding,
                 const at::Tensor& places);

/// first [b, L] int64 = the position of the first token of each token's document, from begins [b, L] (uint8,
/// dense, not 0 where a document begins).
void find_document_begins(const at::Tensor& begins, const at::Tensor& first);

/// Documents::first of one sequence, [L], or null where each sequence is one document.
[[nodiscard]] inline const std::int64_t* document_of(const Documents& documents, std::int64_t sequence) {
  return documents.packed() ? documents.first.data_ptr<std::int64_t>() + sequence * documents.first.size(1)
                            : nullptr;
}

/// The first token that the one at `position` sees. `document` as document_of().
[[nodiscard]] inline std::int64_t first_seen(const std::int64_t* document, std::int64_t position) {
  return document == nullptr ? 0 : document[position];
}

}  // namespace sluice::ops::cpu
