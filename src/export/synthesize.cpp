#include "export/synthesize.hpp"

#include "base/boxes/transpose.hpp"
#include "base/error.hpp"
#include "io/file.hpp"
#include "shard/initial_values.hpp"
#include "weights/staged_directory.hpp"
#include "weights/weight_files.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBufferElements = 512 * std::int64_t{1024};

class Synthesizer {
 public:
  Synthesizer(const KeyMap& keys, const fs::path& directory, const SynthesizeOptions& options)
      : manifest_(keys.manifest()),
        directory_(directory),
        options_(options),
        tensors_(keys.published(options.experts)),
        values_(options.sparse ? 0 : kBufferElements),
        bytes_(values_.size() * sizeof(float)) {}

  SynthesizeReport run() {
    const std::vector<WeightFile> files = cut_into_files(entries(), options_.max_shard_bytes);
    for (const WeightFile& file : files) total_ += file.bytes - file.header_bytes;
    for (const WeightFile& file : files) write_file(file);
    write_weight_index(directory_, files);
    return {static_cast<int>(files.size()), static_cast<std::int64_t>(tensors_.size()), total_};
  }

 private:
  /// Some lines of a matrix of the file at a time: they are columns in the manifest's.
  void write_transposed(OutputFile& file, std::int64_t offset, const KeyTarget& target) {
    const TensorInfo& into = manifest_[target.tensor()];
    const std::int64_t size = size_of(into.dtype), lines = target.shape[1], columns = target.shape[2];
    const std::int64_t most = std::clamp<std::int64_t>(kBufferElements / columns, 1, lines);
    rows_.resize(static_cast<std::size_t>(most * columns));
    bytes_.resize(std::max(bytes_.size(), rows_.size() * sizeof(float)));
    for (std::int64_t matrix = 0; matrix < into.element_count(); matrix += lines * columns)
      for (std::int64_t line = 0; line < lines; line += most) {
        const std::int64_t count = std::min(most, lines - line);
        for (std::int64_t row = 0; row < columns; ++row)
          initial_values(into, options_.standard_deviation, options_.seed, matrix + row * lines + line, count,
                         rows_.data() + row * count);
        transpose_elements({reinterpret_cast<const std::byte*>(rows_.data()), DType::kFloat32, count},
                           columns, count, {bytes_.data(), into.dtype, columns});
        file.write_at(offset + (matrix + line * columns) * size,
                      std::span(bytes_).first(static_cast<std::size_t>(count * columns * size)));
      }
  }

  [[nodiscard]] const TensorInfo& info(const PublishedTensor& tensor) const {
    return manifest_[tensor.target.tensor()];
  }
  [[nodiscard]] std::vector<SafetensorsEntry> entries() const {
    std::vector<SafetensorsEntry> entries;
    for (const PublishedTensor& tensor : tensors_)
      entries.push_back({tensor.name, info(tensor).dtype, tensor.target.shape, 0, 0});
    return entries;
  }

  void write_file(const WeightFile& layout) {
    const std::string header = layout.header();
    OutputFile file = OutputFile::create(directory_ / layout.name);
    file.write_at(0, std::as_bytes(std::span(header)));
    if (options_.sparse) file.resize(layout.bytes);
    for (const SafetensorsEntry& entry : layout.tensors) {
      const PublishedTensor& tensor = tensors_[next_++];
      if (!options_.sparse) write_values(file, entry.begin, tensor.target);
      done_ += entry.bytes;
      if (options_.progress) options_.progress(done_, total_);
    }
    file.close();
  }

  void write_values(OutputFile& file, std::int64_t offset, const KeyTarget& target) {
    if (target.is_transposed) return write_transposed(file, offset, target);
    for (const TensorRange& range : target.ranges) {
      write_values(file, offset, range);
      offset += range.count * size_of(manifest_[range.tensor].dtype);
    }
  }

  void write_values(OutputFile& file, std::int64_t offset, const TensorRange& range) {
    const TensorInfo& into = manifest_[range.tensor];
    const std::int64_t size = size_of(into.dtype);
    for (std::int64_t done = 0; done < range.count;) {
      const std::int64_t count = std::min(kBufferElements, range.count - done);
      initial_values(into, options_.standard_deviation, options_.seed, range.begin + done, count,
                     values_.data());
      convert_elements(values_.data(), DType::kFloat32, bytes_.data(), into.dtype, count);
      file.write_at(offset + done * size, std::span(bytes_).first(static_cast<std::size_t>(count * size)));
      done += count;
    }
  }

  const ParameterManifest& manifest_;
  const fs::path& directory_;
  const SynthesizeOptions& options_;
  std::vector<PublishedTensor> tensors_;
  std::size_t next_ = 0;  ///< of tensors_, to be written
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
  std::vector<float> rows_;  ///< rows of a matrix that is written transposed
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
};

}  // namespace

SynthesizeReport synthesize_checkpoint(const KeyMap& keys, const fs::path& out,
                                       const SynthesizeOptions& options) {
  StagedDirectory staged(out);
  const SynthesizeReport report = Synthesizer(keys, staged.path(), options).run();
  copy_files(options.companions, staged.path());
  staged.commit();
  return report;
}

}  // namespace sluice
