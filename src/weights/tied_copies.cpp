#include "weights/tied_copies.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/spelling.hpp"
#include "weights/entry_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

/// The entry that holds exactly the manifest's tensor `name`; null if there is none.
const CheckpointEntry* entry_of(const CheckpointIndex& index, const KeyMap& keys, const std::string& name) {
  const auto tensor = keys.manifest().find(name);
  if (!tensor) return nullptr;
  for (const CheckpointEntry& entry : index.entries) {
    const auto target = keys.resolve(entry.name);
    if (const auto* key = std::get_if<KeyTarget>(&target); key && key->tensor() == *tensor) return &entry;
  }
  return nullptr;
}

/// Name of the tensor to which config.json ties `entry`; "" if it does not.
std::string tied_to(const CheckpointEntry& entry, const KeyMap& keys) {
  const auto tensor = keys.manifest().find(plain_name(entry.name));
  return tensor ? keys.manifest()[*tensor].tied_to : "";
}

bool is_copy(const CheckpointIndex& index, const std::filesystem::path& directory, const CheckpointEntry& a,
             const CheckpointEntry& b) {
  constexpr std::int64_t kBlocks = 64;
  if (a.shape != b.shape) return false;
  if (a.dtype != b.dtype) return true;
  EntryReader in_a(index, directory), in_b(index, directory);
  const std::int64_t size = size_of(a.dtype), count = element_count(a.shape);
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    const std::int64_t at = count / kBlocks / 2 * i * 2;  // an even index, at which 4-bit codes begin a byte
    const Range block{at, std::min(at + InputFile::kBlockBytes / size, count)};
    std::vector<std::byte> block_a(static_cast<std::size_t>(block.count() * size)), block_b = block_a;
    in_a.read(a, block, block_a);
    in_b.read(b, block, block_b);
    if (block_a != block_b) return false;
  }
  return true;
}

}  // namespace

void require_tied_copies(const CheckpointIndex& index, const KeyMap& keys,
                         const std::filesystem::path& directory) {
  for (const CheckpointEntry& entry : index.entries) {
    const std::string original = tied_to(entry, keys);
    if (original.empty()) continue;
    const CheckpointEntry* other = entry_of(index, keys, original);
    if (other == nullptr || is_copy(index, directory, *other, entry)) continue;
    fail({ExitCode::kBadData, "weights.mismatch"},
         "{}: {} ({}) is not a copy of {}, to which config.json ties it (tie_word_embeddings). If the "
         "model was trained with a head of its own, set tie_word_embeddings to false there; if not, remove "
         "the tensor",
         directory.string(), printable(entry.name), index.files[static_cast<std::size_t>(entry.file)].name,
         printable(other->name));
  }
}

}  // namespace sluice
