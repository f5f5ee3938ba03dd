// The functions of cpu/, computed by LibTorch's operations on the device that holds their tensors, and by the
// kernels of own_kernels.hpp where LibTorch has no suitable operation. Each has the shapes, dtypes and
// roundings of the function of the same name in cpu/. Internal to src/ops.
#pragma once

#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"
#include "ops/buffers/token_rows.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/documents.hpp"
#include "ops/matmul.hpp"
#include "ops/norm.hpp"
#include "ops/rotary.hpp"
#include "ops/runtime/conv_activation.hpp"
#include "ops/runtime/gating.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ops::device {

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);
/// Computes out [count, n] = each row of a [count, k] times its expert's matrix of b [experts, k, n]; all are
/// dense or transposed.
void multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block, const at::Tensor& b);

void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query = 0);
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);
void cached_attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, double scale,
                      std::int64_t window, const at::Tensor& sinks, const at::Tensor& out);

void norm_rows(const at::Tensor& x, const at::Tensor& weight, double eps, NormKind kind, const at::Tensor& y,
               const at::Tensor& scales);
void norm_rows_backward(const at::Tensor& x, const at::Tensor& weight, NormKind kind,
                        const at::Tensor& scales, const at::Tensor& d_y, const at::Tensor& d_x,
                        const at::Tensor& d_weight);
void rotate_heads(const at::Tensor& x, const RotaryTable& table, Turn turn, const at::Tensor& y);
void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out,
                 const Gating& gating = {});
void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up, const Gating& gating = {});
void causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 ConvActivation activation, const Documents& documents, const at::Tensor& y);
[[nodiscard]] std::pair<at::Tensor, at::Tensor> causal_conv_backward(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, ConvActivation activation,
    const Documents& documents, const at::Tensor& d_y, const at::Tensor& d_x);

void router_rows(const at::Tensor& logits, Choice choice, const RouterOptions& options,
                 const at::Tensor& chosen, const at::Tensor& weights);
void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& logits, const at::Tensor& chosen,
                          const at::Tensor& weights, const RouterOptions& options,
                          const at::Tensor& d_weights, const RouterLossGrad& losses,
                          const at::Tensor& d_logits);
void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out);
void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums);
void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights,
                              const Gating& gating = {});
void add_biases(const at::Tensor& rows, const RowBlock& block, const at::Tensor& biases);
void bias_gradient(const at::Tensor& d_rows, const RowBlock& block, const ExpertPart& part,
                   const at::Tensor& weights, const at::Tensor& d_bias);
void add_bias_products(const at::Tensor& d_rows, const RowBlock& block, const at::Tensor& biases,
                       const at::Tensor& d_weights);

void join_logits(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                 const LogitSums& sums);
void cross_entropies(const LogitSums& sums, const at::Tensor& targets, const at::Tensor& losses);
void logits_to_gradient(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                        const LogitSums& sums, const at::Tensor& coefficients);

[[nodiscard]] std::optional<PlacedId> first_outside(const at::Tensor& ids, std::int64_t end,
                                                    std::optional<std::int64_t> exempt = {});
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);
void find_places(const at::Tensor& ids, std::span<const std::int64_t> rows, std::int64_t padding,
                 const at::Tensor& places);
void find_document_begins(const at::Tensor& begins, const at::Tensor& first);
/// Sets Documents::bounds and Documents::longest from `begins`, as find_document_begins() in cpu/ reads them.
void find_document_bounds(const at::Tensor& begins, Documents& documents);

[[nodiscard]] at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens);
void round_rows(const at::Tensor& sums, const at::Tensor& out);
[[nodiscard]] at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                                      std::int64_t token_count);
[[nodiscard]] TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                                     std::int64_t lists);
void add_token_rows(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                    const at::Tensor& table);

// Functions of arrays in the device's memory.

void clear(float* gradients, std::int64_t n);
void add(const float* part, std::int64_t n, float* sum);
void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to);
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);
[[nodiscard]] double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n);

/// Reads master weights; `out` is the caller's memory, in main memory.
void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out);
/// Sums for Adafactor; `column_squares` is the caller's memory, in main memory, here and below.
[[nodiscard]] FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                                          double* column_squares);
void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows);
[[nodiscard]] double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats,
                                              double mean_row);
void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate);

}  // namespace sluice::ops::device
