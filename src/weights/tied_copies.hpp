// Tensors that config.json ties to others, in files that hold both.
#pragma once

#include "manifest/key_map.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>

namespace sluice {

/// A file may hold a tied tensor as well (lm_head.weight beside the embedding): as a copy, which is ignored.
/// Error(kBadData) if it is something else, by its shape or by 64 blocks of its bytes: then config.json is
/// wrong, and to go by it would be to lose a trained head. Copies in another element type are not looked at.
void require_tied_copies(const CheckpointIndex& index, const KeyMap& keys,
                         const std::filesystem::path& directory);

}  // namespace sluice
