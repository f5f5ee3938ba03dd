#include "checkpoint/export_step.hpp"

#include "adapter/merged_values.hpp"
#include "base/boxes/transpose.hpp"
#include "base/error.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/saved_weights.hpp"
#include "export/export_writer.hpp"
#include "io/staged_directory.hpp"
#include "weights/entry_reader.hpp"
#include "weights/weight_files.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Function that fills `out` with elements of an entry, in the entry's element type.
using ReadElements =
    std::function<void(const CheckpointEntry& entry, Range elements, std::span<std::byte> out)>;

/// Reads elements from the files of a checkpoint, each block of which is verified; one file is open at a
/// time.
ReadElements elements_of(const SavedStep& step, const std::filesystem::path& directory,
                         const MatchedCheckpoint& weights) {
  struct Opened {
    int file = -1;
    std::optional<BlockReader> reader;
  };
  const auto opened = std::make_shared<Opened>();
  return [&, opened](const CheckpointEntry& entry, Range elements, std::span<std::byte> out) {
    if (entry.file != opened->file) {
      const std::string& name = weights.index.files[static_cast<std::size_t>(entry.file)].name;
      opened->reader.emplace(directory, *std::ranges::find(step.files, name, &SavedFile::name));
      opened->file = entry.file;
    }
    opened->reader->read(entry.begin + elements.begin * size_of(entry.dtype), out);
  };
}

/// Reads elements from the files of a model, also from codes and scales.
ReadElements elements_of(const std::filesystem::path& directory, const MatchedCheckpoint& weights) {
  const auto reader = std::make_shared<EntryReader>(weights.index, directory);
  return [reader](const CheckpointEntry& entry, Range elements, std::span<std::byte> out) {
    reader->read(entry, elements, out);
  };
}

/// Weights in files, addressed by the elements of an arena that is never allocated.
class FileValues final : public ShardValues {
 public:
  /// `shards` is the plan for a single rank. All references must outlive this object.
  FileValues(const ShardPlan& shards, const MatchedCheckpoint& weights, ReadElements read)
      : shards_(shards), weights_(weights), read_elements_(std::move(read)) {
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

  /// Consecutive elements of the arena, or of the persistent buffers, that are an entry's elements from
  /// `element` on; with `rows`, a matrix of as many rows that the entry holds transposed.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    const CheckpointEntry* entry = nullptr;
    std::int64_t element = 0;
    std::int64_t rows = 0;
  };

  void read(const std::vector<Run>& runs, std::int64_t begin, std::int64_t count, DType dtype,
            std::byte* out) const {
    auto run = std::prev(std::ranges::upper_bound(runs, begin, {}, &Run::begin));
    while (count > 0) {
      const std::int64_t inside = begin - run->begin;
      const std::int64_t part = std::min({count, run->count - inside, kPieceElements});
      SLUICE_ASSERT(part > 0, "the step has no saved weights for element {}", begin);
      read_part(*run, {inside, inside + part}, dtype, out);
      begin += part;
      count -= part;
      out += part * size_of(dtype);
      if (inside + part == run->count) ++run;
    }
  }

  [[nodiscard]] const CheckpointEntry& entry_of(const MatchedEntry& matched) const {
    return weights_.index.entries[static_cast<std::size_t>(matched.entry)];
  }

  /// Adds an entry. A single rank has every expert's matrix in one run.
  void add(const MatchedEntry& matched) {
    const CheckpointEntry& entry = entry_of(matched);
    const std::int64_t rows = matched.is_transposed ? entry.shape[entry.shape.size() - 2] : 0;
    plan().owned_runs(matched.tensor, {matched.begin, matched.begin + matched.count}, 0,
                      [&](const ShardPlan::OwnedRun& run) {
                        runs_.push_back({run.arena_begin, run.count, &entry,
                                         matched.entry_begin + run.tensor_begin - matched.begin, rows});
                      });
  }

  void add_buffer(const MatchedEntry& matched) {
    const BufferPlace& buffer = *plan().layouts().buffer_of(matched.tensor);
    buffer_runs_.push_back(
        {buffer.offset + matched.begin, matched.count, &entry_of(matched), matched.entry_begin, 0});
  }

  void read_part(const Run& run, Range inside, DType dtype, std::byte* out) const {
    const std::int64_t size = size_of(run.entry->dtype);
    if (run.rows > 0) {
      hold(run);
      return convert_elements(matrix_.data() + inside.begin * size, run.entry->dtype, out, dtype,
                              inside.count());
    }
    const std::int64_t begin = run.element + inside.begin;
    const std::int64_t before = weights_.index.encoding_of(*run.entry) == nullptr
                                    ? 0
                                    : begin % 2;  // 4-bit codes begin at even elements
    buffer_.resize(static_cast<std::size_t>((before + inside.count()) * size));
    read_elements_(*run.entry, {begin - before, begin + inside.count()}, buffer_);
    convert_elements(buffer_.data() + before * size, run.entry->dtype, out, dtype, inside.count());
  }

  /// Reads a whole matrix and transposes it, since its rows are asked for one after the other.
  void hold(const Run& run) const {
    if (held_ == &run) return;
    const DType dtype = run.entry->dtype;
    buffer_.resize(static_cast<std::size_t>(run.count * size_of(dtype)));
    matrix_.resize(buffer_.size());
    read_elements_(*run.entry, {run.element, run.element + run.count}, buffer_);
    const std::int64_t columns = run.count / run.rows;
    transpose_elements({buffer_.data(), dtype, columns}, run.rows, columns,
                       {matrix_.data(), dtype, run.rows});
    held_ = &run;
  }

  const ShardPlan& shards_;
  const MatchedCheckpoint& weights_;
  ReadElements read_elements_;
  std::vector<Run> runs_, buffer_runs_;
  mutable std::vector<std::byte> buffer_, matrix_;
  mutable const Run* held_ = nullptr;  ///< run whose matrix is held; null: none
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
  const FileValues values(request.plan.shards(), weights,
                          elements_of(request.step, request.directory, weights));
  write_model(request, values, target);
}

void export_merged_step(const ExportStepRequest& request, const MergeRequest& base,
                        const std::filesystem::path& target) {
  const MatchedCheckpoint trained =
      saved_trained_weights(request.step, request.directory, request.manifest, DType::kFloat32);
  const FileValues adapters(request.plan.shards(), trained,
                            elements_of(request.step, request.directory, trained));
  const FileValues weights(request.plan.shards(), base.weights, elements_of(base.directory, base.weights));
  write_model(request, MergedValues(request.manifest, weights, adapters), target);
}

void export_adapter_step(const SavedStep& step, const std::filesystem::path& directory,
                         const ModelDescription& model, const ShardPlan& shards,
                         const std::filesystem::path& target, const AdapterSaveOptions& options) {
  const MatchedCheckpoint weights = saved_trained_weights(step, directory, model.manifest, DType::kFloat32);
  const FileValues values(shards, weights, elements_of(step, directory, weights));
  save_adapter(model.adapters, model.manifest, values, target, options);
}

}  // namespace sluice
