// Checks of tensors that config.json ties to others, in files that hold both.
#pragma once

#include "manifest/key_map.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>

namespace sluice {

/// A file may hold a tied tensor too (lm_head.weight beside the embedding), if it is a copy, which is then
/// ignored. Error(kBadData) if it differs in its shape or in 64 blocks of its bytes: then config.json is
/// wrong, and following it would lose a trained head. Copies in another element type are not compared.
void require_tied_copies(const CheckpointIndex& index, const KeyMap& keys,
                         const std::filesystem::path& directory);

}  // namespace sluice
