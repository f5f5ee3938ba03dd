// Terms that describe a block before anything is computed: its tensors, settings on which ranks must agree,
// and the memory that tokens take in it.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A tensor of a block; the manifest adds its layer and element type.
struct BlockTensor {
  std::string_view name;  ///< name within its layer, or within the model for tensors outside of layers
  std::vector<std::int64_t> shape;
  Role role = Role::kNorm;
  InitialValues initial = InitialValues::kByRole;
  TensorKind kind = TensorKind::kParameter;  ///< kind of the tensor; buffers are float32
  /// Name of the tensor to which it is tied, see TensorInfo::tied_to.
  std::string_view tied_to{};
};

/// Name in the model of tensor `name` of a layer.
[[nodiscard]] std::string layer_tensor_name(int layer, std::string_view name);

/// A setting that changes numbers but no shape; ranks must agree on it.
struct Setting {
  std::string key;  ///< key in config.json, if there is one
  std::string value;
};

/// Size of a micro-batch in a block, as far as memory depends on it.
struct PassSize {
  std::int64_t sequences = 0;
  std::int64_t length = 0;         ///< tokens of a sequence; at least 1
  std::int64_t element_bytes = 0;  ///< bytes of one element of the training type
  std::int64_t group_tokens = 0;   ///< tokens of all ranks that share the layer's experts
  std::int64_t threads = 0;        ///< compute threads of this rank; 0 if the machine decides
  bool on_device = false;          ///< whether the block runs on a GPU
  bool keeps_logits = false;       ///< whether routers keep their logits, for a z-loss

  /// Number of compute threads to count buffers for: many, if the machine decides.
  [[nodiscard]] std::int64_t workers() const {
    constexpr std::int64_t kMany = 16;
    return threads == 0 ? kMany : threads;
  }
};

/// Activation memory of one block, counted from what each operation saves and what its gradients pass
/// through.
struct BlockActivations {
  std::int64_t kept = 0;      ///< elements per token that the graph keeps until its backward pass
  std::int64_t passed = 0;    ///< further elements per token while the block is computed
  std::int64_t recorded = 0;  ///< elements per token kept for a later pass, or else until the layer is done
  std::int64_t choice_bytes =
      0;  ///< bytes per token of chosen experts and latent results, from a train step's first pass to its last
  std::int64_t working_bytes =
      0;  ///< bytes of buffers that do not depend on the number of tokens, while the block is computed

  BlockActivations& operator+=(const BlockActivations& other);
};

/// Cache of a block for one sequence (keys, values, states), so that earlier tokens need not be computed
/// again.
struct BlockCache {
  std::int64_t position_bytes = 0;  ///< bytes per position of a sequence
  std::int64_t sequence_bytes = 0;  ///< bytes per sequence, whatever its length
};

}  // namespace sluice
