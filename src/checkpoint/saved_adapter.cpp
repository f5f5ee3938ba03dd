#include "checkpoint/saved_adapter.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/saved_weights.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace sluice {
namespace {

void require_adaptable(const AdapterDescription& adapters, const ParameterManifest& manifest,
                       const std::filesystem::path& directory) {
  for (const AdaptedTensor& adapted : adapters.tensors) {
    if (!find_adaptable(manifest, adapted.base) || adapted.rank < 1)
      fail({ExitCode::kBadData, "checkpoint.other_model"},
           "{}: adapts {} with rank {}, which this model does not have or which cannot be adapted. Likely "
           "cause: it was trained on another model",
           directory.string(), printable(adapted.base), adapted.rank);
  }
}

}  // namespace

PeftAdapter saved_adapter(const SavedStep& step, const std::filesystem::path& directory,
                          const SavedAdapters& adapters, ParameterManifest manifest) {
  require_adaptable(adapters.description, manifest, directory);
  add_adapters(manifest, adapters.description);
  PeftAdapter out;
  out.adapters = adapters.description;
  out.style = adapters.style;
  const MatchedCheckpoint weights = saved_trained_weights(step, directory, manifest, DType::kFloat32);
  for (const CheckpointFile& file : weights.index.files)
    out.files.push_back({directory / file.name, file.bytes});
  out.open = [directory, files = step.files](const AdapterFile& opened) -> ReadAdapterFile {
    const auto file = std::ranges::find(files, opened.path.filename().string(), &SavedFile::name);
    // The reader refers to the file's description, so it is kept with it.
    const auto kept = std::make_shared<const SavedFile>(*file);
    return [kept, reader = std::make_shared<BlockReader>(directory, *kept)](
               std::int64_t offset, std::span<std::byte> bytes) { reader->read(offset, bytes); };
  };
  for (const MatchedEntry& matched : weights.match.entries) {
    const CheckpointEntry& entry = weights.index.entries[static_cast<std::size_t>(matched.entry)];
    out.tensors.push_back(
        {{entry.name, entry.dtype, entry.shape, entry.begin, entry.bytes},
         {{manifest[matched.tensor].name, 0, {.begin = matched.begin, .count = matched.count}}},
         entry.file});
  }
  return out;
}

}  // namespace sluice
