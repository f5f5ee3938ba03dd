// Rotary tables of a model: one for each kind of layer that rotates queries and keys in a way of its own.
#pragma once

#include "model/model_config.hpp"
#include "ops/rotary.hpp"

#include <cstdint>

namespace sluice {

/// Rotary tables of layers without and with a window; tensors of a table are undefined where nothing rotates.
struct RotaryTables {
  ops::RotaryTable full, sliding;

  [[nodiscard]] const ops::RotaryTable& of(AttentionKind kind) const {
    return kind == AttentionKind::kSliding ? sliding : full;
  }
};

/// Tables of `positions` positions on `device`.
[[nodiscard]] RotaryTables make_rotary_tables(const ModelConfig& config, std::int64_t positions,
                                              at::Device device);
/// Rows of the tables at `positions` [n] (int64), for tokens x [1, n, heads, d].
[[nodiscard]] RotaryTables rows_of(const RotaryTables& tables, const at::Tensor& positions);

/// Queries or keys x [b, L, heads, d] turned by the angles of a table; x itself where nothing rotates.
[[nodiscard]] at::Tensor turned(const at::Tensor& x, const ops::RotaryTable& table);

}  // namespace sluice
