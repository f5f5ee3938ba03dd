#include "export/synthesize.hpp"

#include "base/boxes/transpose.hpp"
#include "encoding/quantise.hpp"
#include "export/stored_form.hpp"
#include "io/file.hpp"
#include "io/staged_directory.hpp"
#include "shard/initial_values.hpp"
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
      : manifest_(keys.manifest()), directory_(directory), options_(options) {
    for (const PublishedTensor& tensor : keys.published(options.experts))
      forms_.push_back(stored_form(tensor, keys, options.quantization));
  }

  SynthesizeReport run() {
    std::vector<SafetensorsEntry> entries;
    for (const StoredForm& form : forms_)
      for (const StoredTensor& tensor : form.tensors)
        entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    const auto count = std::ssize(entries);
    const std::vector<WeightFile> files = cut_into_files(std::move(entries), options_.max_shard_bytes);
    for (const WeightFile& file : files) total_ += file.bytes - file.header_bytes;
    for (const WeightFile& file : files) write_file(file);
    write_weight_index(directory_, files);
    return {static_cast<int>(files.size()), count, total_};
  }

 private:
  void write_file(const WeightFile& layout) {
    const std::string header = layout.header();
    OutputFile file = OutputFile::create(directory_ / layout.name);
    file.write_at(0, std::as_bytes(std::span(header)));
    if (options_.sparse) file.resize(layout.bytes);
    for (const SafetensorsEntry& entry : layout.tensors) {
      write_next(file, entry.begin);
      done_ += entry.bytes;
      if (options_.progress) options_.progress(done_, total_);
    }
    file.close();
  }

  /// Writes the next tensor.
  void write_next(OutputFile& file, std::int64_t offset) {
    const StoredForm& form = forms_[form_];
    const StoredPart part = form.tensors[tensor_++].part;
    if (tensor_ == form.tensors.size()) {
      tensor_ = 0;
      ++form_;
    }
    if (part == StoredPart::kShape) return write_shape(file, offset, form.target.shape);
    if (part == StoredPart::kTensorScale) return write_tensor_scale(file, offset, *form.encoding);
    if (options_.sparse) return;
    if (part == StoredPart::kCodes) return write_codes(file, offset, form);
    if (part == StoredPart::kScales) return file.write_at(offset, scales_);
    if (form.target.is_transposed) return write_transposed(file, offset, form.target);
    write_values(file, offset, form.target);
  }

  /// Fills the front of values_ with elements of a published tensor that is not transposed.
  void fill(const KeyTarget& target, Range elements) {
    values_.resize(std::max(values_.size(), static_cast<std::size_t>(elements.count())));
    std::int64_t begin = 0;  // first element of the range in the published tensor
    for (const TensorRange& range : target.ranges) {
      const Range part = common(elements, {begin, begin + range.count});
      if (part.count() > 0)
        initial_values(manifest_[range.tensor], options_.standard_deviation, options_.seed,
                       range.begin + part.begin - begin, part.count(),
                       values_.data() + part.begin - elements.begin);
      begin += range.count;
    }
  }

  std::span<std::byte> bytes(std::int64_t count) {
    bytes_.resize(std::max(bytes_.size(), static_cast<std::size_t>(count)));
    return std::span(bytes_).first(static_cast<std::size_t>(count));
  }

  void write_values(OutputFile& file, std::int64_t offset, const KeyTarget& target) {
    const DType dtype = manifest_[target.tensor()].dtype;
    const std::int64_t size = size_of(dtype), end = target.element_count();
    for (std::int64_t begin = 0; begin < end; begin += kBufferElements) {
      const Range some{begin, std::min(begin + kBufferElements, end)};
      fill(target, some);
      const std::span<std::byte> out = bytes(some.count() * size);
      convert_elements(values_.data(), DType::kFloat32, out.data(), dtype, some.count());
      file.write_at(offset + begin * size, out);
    }
  }

  /// Writes a transposed tensor, some lines of the file's matrix at a time, which are columns of the
  /// manifest's.
  void write_transposed(OutputFile& file, std::int64_t offset, const KeyTarget& target) {
    const TensorInfo& into = manifest_[target.tensor()];
    const std::int64_t size = size_of(into.dtype), lines = target.shape[1], columns = target.shape[2];
    const std::int64_t most = std::clamp<std::int64_t>(kBufferElements / columns, 1, lines);
    values_.resize(std::max(values_.size(), static_cast<std::size_t>(most * columns)));
    for (std::int64_t matrix = 0; matrix < into.element_count(); matrix += lines * columns)
      for (std::int64_t line = 0; line < lines; line += most) {
        const std::int64_t count = std::min(most, lines - line);
        for (std::int64_t row = 0; row < columns; ++row)
          initial_values(into, options_.standard_deviation, options_.seed, matrix + row * lines + line, count,
                         values_.data() + row * count);
        const std::span<std::byte> out = bytes(count * columns * size);
        transpose_elements({reinterpret_cast<const std::byte*>(values_.data()), DType::kFloat32, count},
                           columns, count, {out.data(), into.dtype, columns});
        file.write_at(offset + (matrix + line * columns) * size, out);
      }
  }

  /// Writes codes, in whole blocks of rows. Their scales are kept until they are written.
  void write_codes(OutputFile& file, std::int64_t offset, const StoredForm& form) {
    const Encoding& encoding = *form.encoding;
    const std::int64_t columns = encoding.columns;
    const std::int64_t blocks = std::max<std::int64_t>(kBufferElements / (columns * encoding.block_rows), 1);
    scales_.resize(static_cast<std::size_t>(encoding.scale_bytes()));
    std::byte* scales = scales_.data();
    for (std::int64_t matrix = 0; matrix < form.target.element_count(); matrix += encoding.rows * columns)
      for (std::int64_t row = 0; row < encoding.rows; row += blocks * encoding.block_rows) {
        const std::int64_t rows = std::min(blocks * encoding.block_rows, encoding.rows - row);
        const Range elements{matrix + row * columns, matrix + (row + rows) * columns};
        fill(form.target, elements);
        const std::span<std::byte> codes = bytes(encoding.code_bytes(elements.count()));
        quantise_rows(encoding, rows, values_.data(), codes.data(), scales);
        scales += encoding.scale_bytes(encoding.scales_of(elements));
        file.write_at(offset + encoding.code_bytes(elements.begin), codes);
      }
  }

  static void write_shape(OutputFile& file, std::int64_t offset, const std::vector<std::int64_t>& shape) {
    const std::vector<std::int32_t> numbers(shape.begin(), shape.end());
    file.write_at(offset, std::as_bytes(std::span(numbers)));
  }

  static void write_tensor_scale(OutputFile& file, std::int64_t offset, const Encoding& encoding) {
    const TensorScale& scale = encoding.tensor_scale;
    const float number = scale.factor == 1 ? scale.divisor : scale.factor;
    file.write_at(offset, std::as_bytes(std::span(&number, 1)));
  }

  const ParameterManifest& manifest_;
  const fs::path& directory_;
  const SynthesizeOptions& options_;
  std::vector<StoredForm> forms_;
  std::size_t form_ = 0, tensor_ = 0;  ///< indices of the next form to be written, and of its tensor
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> scales_;  ///< scales of the codes that were written last
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
