// Choice of the processor that computes: the processor of the memory where a function's first argument lies.
// Namespace `on` has each function that a processor provides, once. Internal to src/ops.
#pragma once

#include "device/copy.hpp"
#include "ops/cpu/attention/attention.hpp"
#include "ops/cpu/attention/cached_attention.hpp"
#include "ops/cpu/causal_conv.hpp"
#include "ops/cpu/dropout_rows.hpp"
#include "ops/cpu/expert_rows.hpp"
#include "ops/cpu/gradients.hpp"
#include "ops/cpu/loss_rows.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/norm_rows.hpp"
#include "ops/cpu/optimizer/optimizer.hpp"
#include "ops/cpu/rotary_rows.hpp"
#include "ops/cpu/router_rows.hpp"
#include "ops/cpu/swiglu_rows.hpp"
#include "ops/cpu/token_ids.hpp"
#include "ops/cpu/token_rows.hpp"
#include "ops/device/processor.hpp"

#include <span>
#include <utility>

namespace sluice::ops::on {

inline bool is_in_main_memory(const at::Tensor& x) { return x.is_cpu(); }
inline bool is_in_main_memory(const AttentionInputs& inputs) { return inputs.q.is_cpu(); }
inline bool is_in_main_memory(const void* array) { return !is_on_device(array); }
inline bool is_in_main_memory(const FactoredRun& run) { return is_in_main_memory(run.weights); }
/// Whether all of several arguments are, which share one memory; true for none.
inline bool is_in_main_memory(std::span<const UpdateRun> runs) {
  return runs.empty() || is_in_main_memory(runs.front().weights);
}
inline bool is_in_main_memory(std::span<const at::Tensor> tensors) {
  return tensors.empty() || is_in_main_memory(tensors.front());
}

// Defines a function that calls the processor of its first argument's memory.
#define SLUICE_BY_FIRST_ARGUMENT(function)                                                  \
  template <class First, class... Rest>                                                     \
  decltype(auto) function(const First& first, Rest&&... rest) {                             \
    return is_in_main_memory(first) ? cpu::function(first, std::forward<Rest>(rest)...)     \
                                    : device::function(first, std::forward<Rest>(rest)...); \
  }
SLUICE_BY_FIRST_ARGUMENT(matmul)
SLUICE_BY_FIRST_ARGUMENT(attention)
SLUICE_BY_FIRST_ARGUMENT(attention_backward)
SLUICE_BY_FIRST_ARGUMENT(cached_attention)
SLUICE_BY_FIRST_ARGUMENT(norm_rows)
SLUICE_BY_FIRST_ARGUMENT(norm_rows_backward)
SLUICE_BY_FIRST_ARGUMENT(rotate_heads)
SLUICE_BY_FIRST_ARGUMENT(swiglu_rows)
SLUICE_BY_FIRST_ARGUMENT(swiglu_rows_backward)
SLUICE_BY_FIRST_ARGUMENT(causal_conv)
SLUICE_BY_FIRST_ARGUMENT(causal_conv_backward)
SLUICE_BY_FIRST_ARGUMENT(router_rows)
SLUICE_BY_FIRST_ARGUMENT(router_rows_backward)
SLUICE_BY_FIRST_ARGUMENT(dropout_rows)
SLUICE_BY_FIRST_ARGUMENT(take_rows)
SLUICE_BY_FIRST_ARGUMENT(add_rows)
SLUICE_BY_FIRST_ARGUMENT(weighted_swiglu_backward)
SLUICE_BY_FIRST_ARGUMENT(add_biases)
SLUICE_BY_FIRST_ARGUMENT(bias_gradient)
SLUICE_BY_FIRST_ARGUMENT(add_bias_products)
SLUICE_BY_FIRST_ARGUMENT(join_logits)
SLUICE_BY_FIRST_ARGUMENT(logits_to_gradient)
SLUICE_BY_FIRST_ARGUMENT(first_outside)
SLUICE_BY_FIRST_ARGUMENT(find_places)
SLUICE_BY_FIRST_ARGUMENT(find_document_begins)
SLUICE_BY_FIRST_ARGUMENT(round_rows)
SLUICE_BY_FIRST_ARGUMENT(sum_of_parts)
SLUICE_BY_FIRST_ARGUMENT(list_tokens)
SLUICE_BY_FIRST_ARGUMENT(add_token_rows)
SLUICE_BY_FIRST_ARGUMENT(distinct_ids)
SLUICE_BY_FIRST_ARGUMENT(clear)
SLUICE_BY_FIRST_ARGUMENT(add)
SLUICE_BY_FIRST_ARGUMENT(round_to_bfloat16)
SLUICE_BY_FIRST_ARGUMENT(sum_of_squares)
SLUICE_BY_FIRST_ARGUMENT(update_moments)
SLUICE_BY_FIRST_ARGUMENT(read_master)
SLUICE_BY_FIRST_ARGUMENT(adafactor_sums)
SLUICE_BY_FIRST_ARGUMENT(adafactor_columns)
SLUICE_BY_FIRST_ARGUMENT(adafactor_update_squares)
SLUICE_BY_FIRST_ARGUMENT(adafactor_update)
#undef SLUICE_BY_FIRST_ARGUMENT

inline void cross_entropies(const LogitSums& sums, const at::Tensor& targets, const at::Tensor& losses) {
  losses.is_cpu() ? cpu::cross_entropies(sums, targets, losses)
                  : device::cross_entropies(sums, targets, losses);
}

}  // namespace sluice::ops::on
