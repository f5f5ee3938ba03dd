// Loops over token ids (int64, dense), and over the documents that tokens belong to. Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ops::cpu {

/// Returns the first of `ids` that is outside [0, end) and not `exempt`.
[[nodiscard]] std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t end,
                                                    std::optional<std::int64_t> exempt = {});

/// Computes ops::distinct_ids() on this processor.
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);

/// Computes places [T] = the index of each of ids [T] in `rows`, which ascend and contain every id;
/// kNoPadding for the id `padding`, which `rows` need not contain.
void find_places(const at::Tensor& ids, std::span<const std::int64_t> rows, std::int64_t padding,
                 const at::Tensor& places);

/// Computes first [b, L] (int64) = the position of the first token of each token's document, from begins [b,
/// L] (uint8, dense, nonzero where a document begins).
void find_document_begins(const at::Tensor& begins, const at::Tensor& first);

/// Returns Documents::first of one sequence, [L], or null if each sequence is one document.
[[nodiscard]] inline const std::int64_t* document_of(const Documents& documents, std::int64_t sequence) {
  return documents.packed() ? documents.first.data_ptr<std::int64_t>() + sequence * documents.first.size(1)
                            : nullptr;
}

/// Returns the position of the first token that the token at `position` attends to. `document` is what
/// document_of() returns.
[[nodiscard]] inline std::int64_t first_seen(const std::int64_t* document, std::int64_t position) {
  return document == nullptr ? 0 : document[position];
}

}  // namespace sluice::ops::cpu
