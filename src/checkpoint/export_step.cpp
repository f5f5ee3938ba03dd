#include "checkpoint/export_step.hpp"

#include "base/error.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/merged_values.hpp"
#include "checkpoint/saved_weights.hpp"
#include "export/export_writer.hpp"
#include "weights/staged_directory.hpp"
#include "weights/weight_files.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Bytes of one file.
using ReadBytes = std::function<void(std::int64_t offset, std::span<std::byte> out)>;
/// Opens a file by its number; one is open at a time.
using OpenFile = std::function<ReadBytes(int file)>;

/// Files of a step, each block of which is proven.
OpenFile files_of(const SavedStep& step, const std::filesystem::path& directory,
                  const MatchedCheckpoint& weights) {
  return [&](int file) -> ReadBytes {
    const std::string& name = weights.index.files[static_cast<std::size_t>(file)].name;
    const auto reader =
        std::make_shared<BlockReader>(directory, *std::ranges::find(step.files, name, &SavedFile::name));
    return [reader](std::int64_t offset, std::span<std::byte> out) { reader->read(offset, out); };
  };
}

/// Files of a model as they are.
OpenFile files_of(const std::filesystem::path& directory, const MatchedCheckpoint& weights) {
  return [&](int file) -> ReadBytes {
    const auto in = std::make_shared<InputFile>(
        InputFile::open(directory / weights.index.files[static_cast<std::size_t>(file)].name));
    return [in](std::int64_t offset, std::span<std::byte> out) { in->read_at(offset, out); };
  };
}

/// The weights of files at the places of an arena that nobody allocates.
class FileValues final : public ShardValues {
 public:
  /// `shards` are those of one rank. All references must outlive this.
  FileValues(const ShardPlan& shards, const MatchedCheckpoint& weights, OpenFile open)
      : shards_(shards), weights_(weights), open_file_(std::move(open)) {
    for (const MatchedEntry& matched : weights_.match.entries) add(matched);
    for (const MatchedEntry& matched : weights_.match.buffers) add_buffer(matched);
    std::ranges::sort(runs_, {}, &Run::begin);
    std::ranges::sort(buffer_runs_, {}, &Run::begin);
  }

  [[nodiscard]] const ShardPlan& plan() const override { return shards_; }
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] DType dtype() const override { return DType::kFloat32; }
  [[nodiscard]] const std::byte* find(std::int64_t, DType) const override { return nullptr; }

  void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override {
    read(runs_, begin, count, dtype, out);
  }
  void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override {
    read(buffer_runs_, begin, count, DType::kFloat32, reinterpret_cast<std::byte*>(out));
  }

 private:
  static constexpr std::int64_t kPieceElements = 256 * kKiB;

  /// Consecutive elements of the arena, or of the buffers, that lie together in a file.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    int file = 0;
    DType dtype = DType::kFloat32;
    std::int64_t offset = 0;
  };

  void read(const std::vector<Run>& runs, std::int64_t begin, std::int64_t count, DType dtype,
            std::byte* out) const {
    auto run = std::prev(std::ranges::upper_bound(runs, begin, {}, &Run::begin));
    while (count > 0) {
      const std::int64_t inside = begin - run->begin;
      const std::int64_t part = std::min({count, run->count - inside, kPieceElements});
      SLUICE_ASSERT(part > 0, "no weights are saved for element {}", begin);
      read_part(*run, inside, part, dtype, out);
      begin += part;
      count -= part;
      out += part * size_of(dtype);
      if (inside + part == run->count) ++run;
    }
  }

  void add(const MatchedEntry& matched) {
    const CheckpointEntry& entry = weights_.index.entries[static_cast<std::size_t>(matched.entry)];
    plan().owned_runs(
        matched.tensor, {matched.begin, matched.begin + matched.count}, 0,
        [&](const ShardPlan::OwnedRun& run) {
          runs_.push_back({run.arena_begin, run.count, entry.file, entry.dtype,
                           entry.begin + (matched.entry_begin + run.tensor_begin - matched.begin) *
                                             size_of(entry.dtype)});
        });
  }

  void add_buffer(const MatchedEntry& matched) {
    const CheckpointEntry& entry = weights_.index.entries[static_cast<std::size_t>(matched.entry)];
    const BufferPlace& buffer = *plan().layouts().buffer_of(matched.tensor);
    buffer_runs_.push_back(
        {buffer.offset + matched.begin, matched.count, entry.file, entry.dtype, entry.begin});
  }

  void read_part(const Run& run, std::int64_t inside, std::int64_t count, DType dtype, std::byte* out) const {
    if (run.file != open_) {
      read_bytes_ = nullptr;
      read_bytes_ = open_file_(run.file);
      open_ = run.file;
    }
    const std::int64_t size = size_of(run.dtype);
    buffer_.resize(static_cast<std::size_t>(count * size));
    read_bytes_(run.offset + inside * size, buffer_);
    convert_elements(buffer_.data(), run.dtype, out, dtype, count);
  }

  const ShardPlan& shards_;
  const MatchedCheckpoint& weights_;
  OpenFile open_file_;
  std::vector<Run> runs_, buffer_runs_;
  mutable ReadBytes read_bytes_;  ///< of the file that was read last
  mutable int open_ = -1;
  mutable std::vector<std::byte> buffer_;
};

void write_model(const ExportStepRequest& request, const ShardValues& values,
                 const std::filesystem::path& target) {
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

}  // namespace

void export_step(const ExportStepRequest& request, const std::filesystem::path& target) {
  const MatchedCheckpoint weights =
      saved_weights(request.step, request.directory, request.manifest, DType::kFloat32);
  const FileValues values(request.plan.shards(), weights, files_of(request.step, request.directory, weights));
  write_model(request, values, target);
}

void export_merged_step(const ExportStepRequest& request, const MergeRequest& base,
                        const std::filesystem::path& target) {
  const MatchedCheckpoint trained =
      saved_trained_weights(request.step, request.directory, request.manifest, DType::kFloat32);
  const FileValues adapters(request.plan.shards(), trained,
                            files_of(request.step, request.directory, trained));
  const FileValues weights(request.plan.shards(), base.weights, files_of(base.directory, base.weights));
  write_model(request, MergedValues(request.manifest, weights, adapters), target);
}

void export_adapter_step(const SavedStep& step, const std::filesystem::path& directory,
                         const ModelDescription& model, const ShardPlan& shards,
                         const std::filesystem::path& target, const AdapterSaveOptions& options) {
  const MatchedCheckpoint weights = saved_trained_weights(step, directory, model.manifest, DType::kFloat32);
  const FileValues values(shards, weights, files_of(step, directory, weights));
  save_adapter(model.adapters, model.manifest, values, target, options);
}

}  // namespace sluice
