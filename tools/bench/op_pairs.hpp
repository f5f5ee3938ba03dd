// Every operation of src/ops with inputs, and the same in LibTorch's own operations (torch_formulas.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sluice::bench {

/// An operation and its formula, ready to be called.
struct OpPair {
  std::string name, shape;
  std::function<at::Tensor()> ours_forward, plain_forward;  ///< empty: there is only the step
  std::function<void()> ours_step, plain_step;
  double forward_flop = 0;  ///< of its products; a step has three times as many
};

/// Each made only when its turn comes: together they would fill the memory.
struct OpEntry {
  std::string_view name;
  OpPair (*make)(std::int64_t tokens);
  bool has_tokens = true;
};

/// In the order in which they are printed.
extern const std::array<OpEntry, 14> kOps;

}  // namespace sluice::bench
