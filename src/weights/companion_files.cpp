#include "weights/companion_files.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "model/quantization_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostCompanionBytes = 64 << 20;

/// Endings of files that hold weights or the state of a training.
constexpr std::string_view kWeightFormats =
    " .safetensors .bin .pt .pth .ckpt .gguf .ggml .onnx .onnx_data .h5 .hdf5 .msgpack .npz .npy .pkl "
    ".pickle .tflite .mlmodel .ot .nemo .engine .pte .llamafile .pdparams .zip .tar .gz ";
/// Files that tell servers how weights are quantised: those of ModelOpt, of AWQ and DeepSpeed, of GPTQ, of
/// TensorRT-LLM, and of others.
constexpr std::string_view kOfQuantisation =
    " hf_quant_config.json quant_config.json quantize_config.json quant_cfg.json quantization_config.json "
    "quant_model_description.json ";
constexpr std::string_view kUnfinished = " .incomplete .partial .part .tmp .lock ";

bool is_listed(std::string_view list, const fs::path& item) {
  return !item.empty() && list.find(fmt::format(" {} ", item.string())) != std::string_view::npos;
}

/// Whether a file is left out without mention: a checkpoint writes its own, or nobody misses it.
bool is_passed_over(const fs::path& name) {
  const std::string text = name.string();
  return text.starts_with(".") || text.ends_with(".index.json") || text == "manifest.json" ||
         name.extension() == ".safetensors" || is_listed(kUnfinished, name.extension());
}

bool is_left_behind(const fs::directory_entry& file, WeightStorage storage) {
  const fs::path name = file.path().filename();
  std::error_code error;
  return is_listed(kWeightFormats, name.extension()) || name == "adapter_config.json" ||
         (storage == WeightStorage::kPlain && is_listed(kOfQuantisation, name)) ||
         file.file_size(error) > static_cast<std::uintmax_t>(kMostCompanionBytes);
}

std::set<fs::path> entries_of(const fs::path& directory) {
  std::set<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (!is_passed_over(at->path().filename())) entries.insert(at->path());
  return entries;
}

/// The chat templates of a folder.
std::vector<CompanionFile> templates_in(const fs::path& folder) {
  std::vector<CompanionFile> files;
  std::error_code error;
  for (const fs::path& path : entries_of(folder))
    if (path.extension() == ".jinja" && fs::is_regular_file(path, error))
      files.push_back({path, folder.filename() / path.filename()});
  return files;
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

void copy_companion(const CompanionFile& file, const fs::path& to) {
  std::optional<std::string> config;
  if (file.storage == WeightStorage::kPlain && file.name == "config.json")
    config = without_quantization(read_text_file(file.path, kMostCompanionBytes));
  if (config)
    write_text_file(to, *config);
  else
    copy_to_disk(file.path, to);
}

}  // namespace

Companions companion_files(const fs::path& directory, WeightStorage storage) {
  Companions found;
  for (const fs::path& path : entries_of(directory)) {
    const fs::directory_entry entry(path);
    std::error_code error;
    const std::string name = path.filename().string();
    if (entry.is_directory(error)) {
      const std::vector<CompanionFile> templates = templates_in(path);
      found.files.insert(found.files.end(), templates.begin(), templates.end());
      if (templates.empty()) found.left_behind.push_back(name + "/");
    } else if (entry.is_regular_file(error)) {
      if (is_left_behind(entry, storage))
        found.left_behind.push_back(name);
      else
        found.files.push_back({path, name, storage});
    }
  }
  return found;
}

void log_left_behind(const Companions& companions, const fs::path& directory) {
  if (companions.left_behind.empty()) return;
  log::info(
      "{}: not copied, as weights of another format, files that tell how they are quantised, files of more "
      "than {} and folders without chat templates are not: {}",
      directory.string(), format_bytes(kMostCompanionBytes),
      printable(join_some(companions.left_behind), 500));
}

void copy_files(std::span<const CompanionFile> files, const fs::path& directory) {
  std::set<fs::path> folders;
  for (const CompanionFile& file : files) {
    if (file.name.has_parent_path()) folders.insert(directory / file.name.parent_path());
    std::error_code error;
    fs::create_directories((directory / file.name).parent_path(), error);
    if (error)
      fail(write_failure(error.value()), "cannot create the folder of {}: {}",
           (directory / file.name).string(), error.message());
    copy_companion(file, directory / file.name);
  }
  for (const fs::path& folder : folders) sync_directory(folder);
}

}  // namespace sluice
