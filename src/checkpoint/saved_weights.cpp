#include "checkpoint/saved_weights.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/state_spans.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

class Collector {
 public:
  Collector(const ParameterManifest& manifest, DType arena, MatchedCheckpoint& out)
      : manifest_(manifest), arena_(arena), out_(out) {}

  void add(const SavedFile& file) {
    const auto number = static_cast<int>(out_.index.files.size());
    out_.index.files.push_back({file.name, file.bytes});
    for (const SavedEntry& entry : file.entries)
      if (entry.array == kWeightsArray) add(entry, number);
  }

  /// Checks that `entries` have each of these tensors once and whole.
  void check(std::span<const MatchedEntry> entries, const std::vector<int>& tensors) const {
    const std::vector<Coverage::Fault> faults = faults_of(entries, manifest_, tensors);
    if (!faults.empty())
      fail({ExitCode::kBadData, "checkpoint.damaged"},
           "{}: the weights of {} are not there once and whole (up to element {})", out_.index.directory,
           manifest_[faults.front().place].name, faults.front().elements.begin);
  }

 private:
  void add(const SavedEntry& entry, int file) {
    const std::optional<int> tensor = manifest_.find(entry.tensor);
    if (!tensor || !manifest_[*tensor].tied_to.empty())
      fail({ExitCode::kBadData, "checkpoint.other_model"}, "{}: {} is not a tensor of this model",
           out_.index.directory, printable(entry.tensor));
    const TensorInfo& info = manifest_[*tensor];
    if (entry.numbers.end > info.element_count() || !is_convertible(entry.dtype, arena_))
      fail({ExitCode::kBadData, "checkpoint.damaged"},
           "{}: {} is saved up to element {} in {}, expected {} elements of {}", out_.index.directory,
           info.name, entry.numbers.end, name_of(entry.dtype), info.element_count(), name_of(arena_));
    const std::int64_t block =
        info.role == Role::kExpert ? info.element_count() / info.shape.front() : info.element_count();
    for (std::int64_t begin = entry.numbers.begin; begin < entry.numbers.end;) {
      const std::int64_t end = std::min(entry.numbers.end, (begin / block + 1) * block);
      const std::int64_t size = size_of(entry.dtype);
      out_.match.entries.push_back(
          {static_cast<int>(out_.index.entries.size()), *tensor, begin, end - begin, 0});
      out_.index.entries.push_back({fmt::format("{}[{}:{}]", entry.tensor, begin, end),
                                    file,
                                    entry.dtype,
                                    {end - begin},
                                    entry.offset + (begin - entry.numbers.begin) * size,
                                    (end - begin) * size});
      begin = end;
    }
  }

  const ParameterManifest& manifest_;
  DType arena_;
  MatchedCheckpoint& out_;
};

MatchedCheckpoint collect(const SavedStep& step, const std::filesystem::path& directory,
                          const ParameterManifest& manifest, DType arena, const std::vector<int>& tensors) {
  MatchedCheckpoint weights;
  weights.index.directory = directory.string();
  Collector collector(manifest, arena, weights);
  for (const SavedFile& file : step.files)
    if (!file.entries.empty()) collector.add(file);
  set_buffers_apart(weights.match, manifest);
  collector.check(weights.match.entries, tensors);
  collector.check(weights.match.buffers, manifest.whole_tensors());
  return weights;
}

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

MatchedCheckpoint saved_weights(const SavedStep& step, const std::filesystem::path& directory,
                                const ParameterManifest& manifest, DType arena) {
  if (!step.base_digest.empty())
    fail({ExitCode::kBadData, "checkpoint.other_model"},
         "{}: holds only what was trained, without the frozen weights, which are in "
         "{}",
         directory.string(), step.key("model.path"));
  std::vector<int> tensors = manifest.stored_tensors();
  std::erase_if(tensors, [&](int tensor) { return !manifest[tensor].adapts.empty(); });
  return collect(step, directory, manifest, arena, tensors);
}

MatchedCheckpoint saved_trained_weights(const SavedStep& step, const std::filesystem::path& directory,
                                        const ParameterManifest& manifest, DType arena) {
  return collect(step, directory, manifest, arena, manifest.trained_tensors());
}

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
