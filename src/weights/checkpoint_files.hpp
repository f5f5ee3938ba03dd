// Files of a checkpoint while their tensors are read.
#pragma once

#include "io/file.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>

namespace sluice {

/// Opens a file that an index lists. Error(kBadData) if it is not as long as it was when its header was read.
[[nodiscard]] InputFile open_source(const std::filesystem::path& directory, const CheckpointFile& file);

/// Whether most of a file is in the page cache. Looks at a few places, for which it advises random access.
[[nodiscard]] bool is_mostly_cached(const InputFile& file);

}  // namespace sluice
