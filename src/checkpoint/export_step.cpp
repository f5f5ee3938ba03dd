#include "checkpoint/export_step.hpp"

#include "base/error.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/saved_weights.hpp"
#include "export/export_writer.hpp"
#include "weights/staged_directory.hpp"
#include "weights/weight_files.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// The weights of a step at the places of an arena that nobody allocates.
class SavedValues final : public ShardValues {
 public:
  /// `shards` are those of one rank. All references must outlive this.
  SavedValues(const SavedStep& step, const std::filesystem::path& directory, const ShardPlan& shards,
              MatchedCheckpoint weights)
      : step_(step), directory_(directory), shards_(shards), weights_(std::move(weights)) {
    for (const MatchedEntry& matched : weights_.match.entries) add(matched);
    std::ranges::sort(runs_, {}, &Run::arena_begin);
  }

  [[nodiscard]] const ShardPlan& plan() const override { return shards_; }
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] DType dtype() const override { return DType::kFloat32; }
  [[nodiscard]] const std::byte* find(std::int64_t, DType) const override { return nullptr; }

  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override {
    auto run = std::prev(std::ranges::upper_bound(runs_, begin, {}, &Run::arena_begin));
    while (count > 0) {
      const std::int64_t inside = begin - run->arena_begin;
      const std::int64_t part = std::min({count, run->count - inside, kPieceElements});
      SLUICE_ASSERT(part > 0, "no weights are saved for element {} of the arena", begin);
      read_part(*run, inside, part, dtype, out);
      begin += part;
      count -= part;
      out += part * size_of(dtype);
      if (inside + part == run->count) ++run;
    }
  }

 private:
  static constexpr std::int64_t kPieceElements = 256 * kKiB;

  /// Consecutive elements of the arena that lie together in a file.
  struct Run {
    std::int64_t arena_begin = 0;
    std::int64_t count = 0;
    int file = 0;
    DType dtype = DType::kFloat32;
    std::int64_t offset = 0;
  };

  void add(const MatchedEntry& matched) {
    const CheckpointEntry& entry = weights_.index.entries[static_cast<std::size_t>(matched.entry)];
    const int unit = plan().layouts().homes[static_cast<std::size_t>(matched.tensor)].unit;
    const Placement& placement =
        plan().layouts().units[static_cast<std::size_t>(unit)].placement_of(matched.tensor);
    plan().for_each_owned_run(
        unit, placement, {matched.begin, matched.begin + matched.count}, 0,
        [&](const ShardPlan::OwnedRun& run) {
          runs_.push_back({run.arena_begin, run.count, entry.file, entry.dtype,
                           entry.begin + (run.tensor_begin - matched.begin) * size_of(entry.dtype)});
        });
  }

  void read_part(const Run& run, std::int64_t inside, std::int64_t count, DType dtype, std::byte* out) const {
    if (run.file != open_) {
      reader_.reset();
      reader_.emplace(directory_, file_of(run));
      open_ = run.file;
    }
    const std::int64_t size = size_of(run.dtype);
    buffer_.resize(static_cast<std::size_t>(count * size));
    reader_->read(run.offset + inside * size, buffer_);
    convert_elements(buffer_.data(), run.dtype, out, dtype, count);
  }

  [[nodiscard]] const SavedFile& file_of(const Run& run) const {
    const std::string& name = weights_.index.files[static_cast<std::size_t>(run.file)].name;
    return *std::ranges::find(step_.files, name, &SavedFile::name);
  }

  const SavedStep& step_;
  const std::filesystem::path& directory_;
  const ShardPlan& shards_;
  MatchedCheckpoint weights_;
  std::vector<Run> runs_;
  mutable std::optional<BlockReader> reader_;  ///< of the file that was read last
  mutable int open_ = -1;
  mutable std::vector<std::byte> buffer_;
};

}  // namespace

void export_step(const ExportStepRequest& request, const std::filesystem::path& target) {
  const SavedValues values(request.step, request.directory, request.plan.shards(),
                           saved_weights(request.step, request.directory, request.manifest, DType::kFloat32));
  StagedDirectory staged(target);
  std::int64_t done = 0;
  const std::int64_t total = request.plan.file_bytes();
  ExportWriter writer(request.plan, values, staged.path(),
                      {request.source, 8 * kMiB, /*keep_cached=*/false, [&] {
                         if (request.progress) request.progress(done, total);
                       }});
  for (int file = 0; file < static_cast<int>(request.plan.files().size()); ++file) {
    const WeightFile& layout = request.plan.files()[static_cast<std::size_t>(file)];
    OutputFile::create(staged.path() / layout.name).resize(layout.bytes);
    writer.write(file);
    done += layout.bytes;
  }
  write_weight_index(staged.path(), request.plan.files());
  copy_files(request.companions, staged.path());
  staged.commit();
}

void export_adapter_step(const SavedStep& step, const std::filesystem::path& directory,
                         const ModelDescription& model, const ShardPlan& shards,
                         const std::filesystem::path& target, const AdapterSaveOptions& options) {
  const SavedValues values(step, directory, shards,
                           saved_trained_weights(step, directory, model.manifest, DType::kFloat32));
  save_adapter(model.adapters, model.manifest, values, target, options);
}

}  // namespace sluice
