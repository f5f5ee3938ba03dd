#include "load/synthesize.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"
#include "load/initial_values.hpp"
#include "load/staged_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBufferElements = 512 * 1024;

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

class Synthesizer {
 public:
  Synthesizer(const KeyMap& keys, const fs::path& directory, const SynthesizeOptions& options)
      : manifest_(keys.manifest()),
        directory_(directory),
        options_(options),
        tensors_(keys.published(options.experts)),
        values_(options.sparse ? 0 : kBufferElements),
        bytes_(values_.size() * sizeof(float)) {
    for (const PublishedTensor& tensor : tensors_) total_ += bytes_of(tensor);
  }

  SynthesizeReport run() {
    const std::vector<std::span<const PublishedTensor>> files = cut_into_files();
    const int count = static_cast<int>(files.size());
    nlohmann::json weight_map = nlohmann::json::object();
    for (int i = 0; i < count; ++i) {
      const std::string name =
          count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
      write_file(name, files[static_cast<std::size_t>(i)]);
      for (const PublishedTensor& tensor : files[static_cast<std::size_t>(i)]) weight_map[tensor.name] = name;
    }
    if (count > 1) {
      const nlohmann::json index{{"metadata", {{"total_size", total_}}},
                                 {"weight_map", std::move(weight_map)}};
      write_text_file(directory_ / "model.safetensors.index.json", index.dump(2) + "\n");
    }
    return {count, static_cast<std::int64_t>(tensors_.size()), total_};
  }

 private:
  [[nodiscard]] const TensorInfo& info(const PublishedTensor& tensor) const {
    return manifest_[tensor.target.tensor];
  }
  [[nodiscard]] std::int64_t bytes_of(const PublishedTensor& tensor) const {
    return element_count(tensor.target.shape) * size_of(info(tensor).dtype);
  }

  [[nodiscard]] std::vector<std::span<const PublishedTensor>> cut_into_files() const {
    std::vector<std::span<const PublishedTensor>> files;
    std::size_t first = 0;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::int64_t next = bytes_of(tensors_[i]);
      if (i > first && bytes + next > options_.max_shard_bytes) {
        files.push_back(std::span(tensors_).subspan(first, i - first));
        first = i;
        bytes = 0;
      }
      bytes += next;
    }
    files.push_back(std::span(tensors_).subspan(first));
    return files;
  }

  void write_file(const std::string& name, std::span<const PublishedTensor> tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const PublishedTensor& tensor : tensors)
      entries.push_back({tensor.name, info(tensor).dtype, tensor.target.shape, 0, 0});
    const std::string header = make_safetensors_header(entries, {{"format", "pt"}});
    OutputFile file = OutputFile::create(directory_ / name);
    file.write_at(0, std::as_bytes(std::span(header)));
    if (options_.sparse) file.resize(entries.back().begin + entries.back().bytes);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!options_.sparse) write_values(file, entries[i].begin, tensors[i]);
      done_ += entries[i].bytes;
      if (options_.progress) options_.progress(done_, total_);
    }
    file.close();
  }

  void write_values(OutputFile& file, std::int64_t offset, const PublishedTensor& tensor) {
    const TensorInfo& into = info(tensor);
    const std::int64_t size = size_of(into.dtype);
    const std::int64_t total = element_count(tensor.target.shape);
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t count = std::min(kBufferElements, total - done);
      initial_values(into, options_.standard_deviation, options_.seed, tensor.target.begin + done, count,
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
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
};

}  // namespace

SynthesizeReport synthesize_checkpoint(const KeyMap& keys, const fs::path& out,
                                       const SynthesizeOptions& options) {
  StagedDirectory staged(out);
  const SynthesizeReport report = Synthesizer(keys, staged.path(), options).run();
  constexpr std::int64_t kLargestCompanion = 100'000'000;
  for (const fs::path& companion : options.companions)
    write_text_file(staged.path() / companion.filename(), read_text_file(companion, kLargestCompanion));
  staged.commit();
  return report;
}

std::vector<fs::path> companion_files(const fs::path& directory) {
  constexpr std::array<std::string_view, 11> kNames{
      "config.json",       "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
      "tokenizer.model",   "special_tokens_map.json", "vocab.json",        "merges.txt",
      "added_tokens.json", "chat_template.jinja",     "chat_template.json"};
  std::vector<fs::path> found;
  std::error_code error;
  for (const std::string_view name : kNames)
    if (fs::is_regular_file(directory / name, error)) found.push_back(directory / name);
  return found;
}

}  // namespace sluice
