// The terms in which a block is described before anything is computed: its tensors, what ranks must agree on,
// what it takes while tokens pass through it.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A tensor in the words of its block; the manifest adds the layer and the element type.
struct BlockTensor {
  std::string_view name;  ///< within its layer, or if it lies outside the layers within the model
  std::vector<std::int64_t> shape;
  Role role = Role::kNorm;
  InitialValues initial = InitialValues::kByRole;
  TensorKind kind = TensorKind::kParameter;  ///< buffers are float32
  std::string_view tied_to{};                ///< as TensorInfo::tied_to
};

/// The name in the model of a layer's tensor `name`.
[[nodiscard]] std::string layer_tensor_name(int layer, std::string_view name);

/// What changes numbers without changing a shape: ranks must have the same.
struct Setting {
  std::string key;  ///< as config.json spells it, if it has one
  std::string value;
};

/// A micro-batch on its way through a block, as far as memory depends on it.
struct PassSize {
  std::int64_t sequences = 0;
  std::int64_t length = 0;         ///< tokens of a sequence; at least 1
  std::int64_t element_bytes = 0;  ///< of the training type
  std::int64_t group_tokens = 0;   ///< of all ranks that have the layer's experts between them
  std::int64_t threads = 0;        ///< of this rank; 0 if the machine decides
  bool on_device = false;          ///< not on its processor
  bool keeps_logits = false;       ///< whether routers keep their logits, for a z-loss
};

/// What one block takes of memory, counted from what each operation saves and what its gradients pass through.
struct BlockActivations {
  std::int64_t kept = 0;      ///< elements of a token that the graph keeps until its gradients have passed
  std::int64_t passed = 0;    ///< elements of a token besides, while the block is computed
  std::int64_t recorded = 0;  ///< elements of a token, for a later pass or else until the layer is done
  std::int64_t choice_bytes = 0;   ///< of a token, from the first pass of a train step to its last
  std::int64_t working_bytes = 0;  ///< that do not belong to single tokens, while the block is computed

  BlockActivations& operator+=(const BlockActivations& other);
};

/// What a block remembers of a sequence that is to go on, so that its earlier tokens need not be computed again.
struct BlockCache {
  std::int64_t position_bytes = 0;  ///< of each token of it
  std::int64_t sequence_bytes = 0;  ///< however long it is
};

}  // namespace sluice
