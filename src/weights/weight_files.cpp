#include "weights/weight_files.hpp"

#include "io/file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

std::string WeightFile::header() const {
  std::vector<SafetensorsEntry> copy = tensors;
  return make_header(copy);
}

std::vector<WeightFile> cut_into_files(std::vector<SafetensorsEntry> tensors, std::int64_t max_shard_bytes) {
  make_header(tensors);  // fills in the place of each tensor
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

}  // namespace sluice
