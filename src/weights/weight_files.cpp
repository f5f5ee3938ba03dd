#include "weights/weight_files.hpp"

#include "base/bytes.hpp"
#include "io/file.hpp"
#include "model/quantization_config.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargestConfig = 100'000'000;

std::string make_header(std::vector<SafetensorsEntry>& tensors) {
  return make_safetensors_header(tensors, {{"format", "pt"}});
}

WeightFile make_file(std::vector<SafetensorsEntry> tensors) {
  WeightFile file;
  file.header_bytes = static_cast<std::int64_t>(make_header(tensors).size());
  file.bytes = file.header_bytes;
  for (const SafetensorsEntry& tensor : tensors) file.bytes += tensor.bytes;
  file.tensors = std::move(tensors);
  return file;
}

void name_files(std::vector<WeightFile>& files) {
  if (files.size() == 1) {
    files.front().name = "model.safetensors";
    return;
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
}

void copy_to_disk(const fs::path& from, const fs::path& to) {
  const InputFile in = InputFile::open(from);
  OutputFile out = OutputFile::create(to);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(in.size_bytes(), kMiB)));
  for (std::int64_t done = 0; done < in.size_bytes();) {
    const std::int64_t bytes = std::min(kMiB, in.size_bytes() - done);
    const std::span<std::byte> part = std::span(buffer).first(static_cast<std::size_t>(bytes));
    in.read_at(done, part);
    out.write_at(done, part);
    done += bytes;
  }
  out.close();
}

}  // namespace

std::string WeightFile::header() const {
  std::vector<SafetensorsEntry> copy = tensors;
  return make_header(copy);
}

std::vector<WeightFile> cut_into_files(std::vector<SafetensorsEntry> tensors, std::int64_t max_shard_bytes) {
  make_header(tensors);  // fills in what each takes
  std::vector<WeightFile> files;
  std::vector<SafetensorsEntry> members;
  std::int64_t bytes = 0;
  for (SafetensorsEntry& tensor : tensors) {
    if (!members.empty() && bytes + tensor.bytes > max_shard_bytes) {
      files.push_back(make_file(std::exchange(members, {})));
      bytes = 0;
    }
    bytes += tensor.bytes;
    members.push_back(std::move(tensor));
  }
  files.push_back(make_file(std::move(members)));
  name_files(files);
  return files;
}

void write_weight_index(const fs::path& directory, std::span<const WeightFile> files) {
  if (files.size() < 2) return;
  std::int64_t total = 0;
  nlohmann::json weight_map = nlohmann::json::object();
  for (const WeightFile& file : files) {
    total += file.bytes - file.header_bytes;
    for (const SafetensorsEntry& tensor : file.tensors) weight_map[tensor.name] = file.name;
  }
  const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
  write_text_file(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

std::vector<fs::path> companion_files(const fs::path& directory) {
  constexpr std::array<std::string_view, 14> kNames{"config.json",
                                                    "generation_config.json",
                                                    "tokenizer.json",
                                                    "tokenizer_config.json",
                                                    "tokenizer.model",
                                                    "special_tokens_map.json",
                                                    "vocab.json",
                                                    "merges.txt",
                                                    "added_tokens.json",
                                                    "chat_template.jinja",
                                                    "chat_template.json",
                                                    "preprocessor_config.json",
                                                    "processor_config.json",
                                                    "video_preprocessor_config.json"};
  std::vector<fs::path> found;
  std::error_code error;
  for (const std::string_view name : kNames)
    if (fs::is_regular_file(directory / name, error)) found.push_back(directory / name);
  return found;
}

void copy_files(std::span<const fs::path> files, const fs::path& directory) {
  for (const fs::path& file : files) {
    const fs::path to = directory / file.filename();
    std::optional<std::string> config;
    if (file.filename() == "config.json") config = without_quantization(read_text_file(file, kLargestConfig));
    if (config)
      write_text_file(to, *config);
    else
      copy_to_disk(file, to);
  }
}

}  // namespace sluice
