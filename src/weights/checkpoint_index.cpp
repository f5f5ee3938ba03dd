#include "weights/checkpoint_index.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/run_together.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/safetensors.hpp"
#include "manifest/key_map.hpp"
#include "manifest/spelling.hpp"
#include "model/model_directory.hpp"
#include "model/quantization_config.hpp"
#include "weights/problems.hpp"
#include "weights/quantised_tensors.hpp"
#include "weights/weight_map.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
/// Largest index file in bytes, as for safetensors headers.
constexpr std::int64_t kMaxIndexBytes = 100'000'000;

void append_file(const fs::path& directory, const std::string& name, CheckpointIndex& index) {
  const InputFile file = InputFile::open(directory / name);
  SafetensorsHeader header = read_safetensors_header(file);
  const int position = static_cast<int>(index.files.size());
  index.files.push_back({name, file.size_bytes()});
  for (SafetensorsEntry& entry : header.entries)
    index.entries.push_back(
        {std::move(entry.name), position, entry.dtype, std::move(entry.shape), entry.begin, entry.bytes});
}

std::string absent_text(const AbsentTensor& tensor) {
  return fmt::format("tensor {} is missing: {} says it is in {}", printable(tensor.name), kIndexFile,
                     tensor.file);
}

/// Finds tensors that are not exactly where the index says. `unread` holds the files whose header could not
/// be read.
void compare_with_headers(const WeightMap& map, CheckpointIndex& index,
                          const std::vector<std::string>& unread, Problems& problems) {
  std::map<std::string_view, int> found;
  for (const CheckpointEntry& entry : index.entries) {
    const std::string& file = index.files[static_cast<std::size_t>(entry.file)].name;
    const auto [other, is_new] = found.emplace(entry.name, entry.file);
    const auto listed = map.tensors.find(entry.name);
    if (!is_new) {
      problems.add("tensor {} is in two files: {} and {}", printable(entry.name),
                   index.files[static_cast<std::size_t>(other->second)].name, file);
    } else if (listed == map.tensors.end()) {
      problems.add("tensor {} is in {}, but not in {}", printable(entry.name), file, kIndexFile);
    } else if (const std::string& expected = map.files[static_cast<std::size_t>(listed->second)];
               expected != file) {
      problems.add("tensor {} is in {}, but {} says {}", printable(entry.name), file, kIndexFile, expected);
    }
  }
  for (const auto& [tensor, position] : map.tensors) {
    const std::string& file = map.files[static_cast<std::size_t>(position)];
    if (!found.contains(tensor) && std::ranges::find(unread, file) == unread.end())
      index.absent.push_back({tensor, file});
  }
  std::ranges::sort(index.absent, {}, &AbsentTensor::name);
}

void warn_of_absent(CheckpointIndex& index) {
  if (index.absent.empty()) return;
  std::vector<std::string> names;
  for (const AbsentTensor& tensor : index.absent) names.push_back(printable(tensor.name));
  index.warnings.push_back(fmt::format("{} lists {} that no file holds: {}", kIndexFile,
                                       counted(std::ssize(names), "tensor"), join_some(names)));
}

void compare_total_size(const WeightMap& map, CheckpointIndex& index) {
  std::int64_t total = 0;
  for (const CheckpointEntry& entry : index.entries) total += entry.bytes;
  if (map.total_size == total) return;
  index.warnings.push_back(fmt::format(
      "{}: metadata.total_size is {}, but the tensors have {} bytes", kIndexFile,
      map.total_size ? fmt::format("{}", *map.total_size) : std::string("not given as an integer"), total));
}

CheckpointIndex read_sharded(const fs::path& directory) {
  const std::string json = read_text_file(directory / kIndexFile, kMaxIndexBytes);
  const WeightMap map = parse_weight_map(json, (directory / kIndexFile).string());
  std::vector<std::string> files = map.files;
  std::ranges::sort(files);

  CheckpointIndex index;
  index.directory = directory.string();
  Problems problems;
  std::vector<std::string> unread;
  for (const std::string& file : files) {
    try {
      append_file(directory, file, index);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadData) throw;
      problems.add("{}", error.what());
      unread.push_back(file);
    }
  }
  compare_with_headers(map, index, unread, problems);
  for (const AbsentTensor& tensor : index.absent)
    if (!problems.empty()) problems.add("{}", absent_text(tensor));
  problems.throw_if_any(directory.string());
  warn_of_absent(index);
  compare_total_size(map, index);
  return index;
}

[[noreturn]] void refuse_without_weights(const fs::path& directory) {
  std::vector<std::string> pickles;
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth")
      pickles.push_back(entry.path().filename().string());
    if (extension == ".safetensors" && entry.path().filename() != kPeftWeightsFile)
      parts.push_back(entry.path().filename().string());
  }
  if (error) fail({ExitCode::kIo, "io.read"}, "cannot list {}: {}", directory.string(), error.message());
  std::ranges::sort(pickles);
  std::ranges::sort(parts);
  if (!parts.empty())
    fail({ExitCode::kBadData, "weights.not_found"},
         "{}: neither {} nor {} is here, so nothing says which of {} belong together. Was the "
         "directory copied or downloaded completely?",
         directory.string(), kSingleFile, kIndexFile, join_some(parts, 3));
  if (const std::string why = why_no_model(directory); !why.empty())
    fail({ExitCode::kBadData, "weights.not_found"}, "{}", why);
  if (pickles.empty())
    fail({ExitCode::kBadData, "weights.not_found"},
         "{}: neither {} nor {} is here; expected a model directory with its weights", directory.string(),
         kSingleFile, kIndexFile);
  fail({ExitCode::kBadData, "weights.format"},
       "{}: only pickle files are here ({}), and loading one can run any code it holds. Convert them to "
       "safetensors, for instance with transformers: "
       "AutoModelForCausalLM.from_pretrained(dir).save_pretrained(new_dir).",
       directory.string(), join_some(pickles, 3));
}

/// Reads an index with every tensor as its file has it.
CheckpointIndex read_stored_index(const fs::path& directory) {
  // transformers prefers the single file too.
  std::error_code error;
  if (path_exists(directory / kSingleFile) || fs::is_symlink(directory / kSingleFile, error)) {
    CheckpointIndex index;
    index.directory = directory.string();
    append_file(directory, std::string(kSingleFile), index);
    if (path_exists(directory / kIndexFile))
      index.warnings.push_back(fmt::format("{} is here too and is ignored, as {} holds a whole checkpoint",
                                           kIndexFile, kSingleFile));
    return index;
  }
  if (path_exists(directory / kIndexFile)) return read_sharded(directory);
  refuse_without_weights(directory);
}

}  // namespace

std::string CheckpointIndex::to_bytes() const {
  ByteWriter out;
  out.text(directory);
  out.number(static_cast<std::int64_t>(files.size()));
  for (const CheckpointFile& file : files) {
    out.text(file.name);
    out.number(file.bytes);
  }
  out.number(static_cast<std::int64_t>(entries.size()));
  for (const CheckpointEntry& entry : entries) {
    out.text(entry.name);
    out.number(entry.file);
    out.number(static_cast<std::int64_t>(entry.dtype));
    out.number(static_cast<std::int64_t>(entry.shape.size()));
    for (const std::int64_t size : entry.shape) out.number(size);
    out.number(entry.begin);
    out.number(entry.bytes);
    out.number(entry.encoding);
  }
  out.number(static_cast<std::int64_t>(encodings.size()));
  for (const Encoding& encoding : encodings)
    for (const std::int64_t number : numbers_of(encoding)) out.number(number);
  out.number(static_cast<std::int64_t>(absent.size()));
  for (const AbsentTensor& tensor : absent) {
    out.text(tensor.name);
    out.text(tensor.file);
  }
  out.number(static_cast<std::int64_t>(warnings.size()));
  for (const std::string& warning : warnings) out.text(warning);
  return out.take();
}

CheckpointIndex CheckpointIndex::from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  CheckpointIndex index;
  index.directory = in.text();
  index.files.resize(static_cast<std::size_t>(in.number()));
  for (CheckpointFile& file : index.files) {
    file.name = in.text();
    file.bytes = in.number();
  }
  index.entries.resize(static_cast<std::size_t>(in.number()));
  for (CheckpointEntry& entry : index.entries) {
    entry.name = in.text();
    entry.file = static_cast<int>(in.number());
    entry.dtype = static_cast<DType>(in.number());
    entry.shape.resize(static_cast<std::size_t>(in.number()));
    for (std::int64_t& size : entry.shape) size = in.number();
    entry.begin = in.number();
    entry.bytes = in.number();
    entry.encoding = static_cast<int>(in.number());
  }
  index.encodings.resize(static_cast<std::size_t>(in.number()));
  for (Encoding& encoding : index.encodings) {
    auto numbers = numbers_of(encoding);
    for (std::int64_t& number : numbers) number = in.number();
    encoding = encoding_from(numbers);
  }
  index.absent.resize(static_cast<std::size_t>(in.number()));
  for (AbsentTensor& tensor : index.absent) {
    tensor.name = in.text();
    tensor.file = in.text();
  }
  index.warnings.resize(static_cast<std::size_t>(in.number()));
  for (std::string& warning : index.warnings) warning = in.text();
  SLUICE_ASSERT(in.at_end(), "bytes left over behind a checkpoint index");
  return index;
}

bool holds_weights(const fs::path& directory) {
  for (const fs::path& entry : entries_in(directory)) {
    const std::string name = entry.filename().string();
    if (name == kIndexFile || entry.extension() == ".safetensors" || name.starts_with("pytorch_model"))
      return true;
  }
  return false;
}

CheckpointIndex read_checkpoint_index(const fs::path& directory, QuantisedAs quantised) {
  if (!directory_exists(directory)) {
    if (const std::string why = why_no_model(directory); !why.empty())
      fail({ExitCode::kBadData, "weights.not_found"}, "{}", why);
    fail({ExitCode::kBadData, "weights.not_found"}, "{}: no such directory", directory.string());
  }
  CheckpointIndex index = read_stored_index(directory);
  if (quantised == QuantisedAs::kWeights) join_quantised(index, directory, read_quantization(directory));
  return index;
}

void require_listed_tensors(const CheckpointIndex& index) {
  Problems problems;
  for (const AbsentTensor& tensor : index.absent)
    if (!ignored_key(plain_name(tensor.name))) problems.add("{}", absent_text(tensor));
  problems.throw_if_any(index.directory);
}

CheckpointIndex share_checkpoint_index(Communicator& comm, const fs::path& directory, QuantisedAs quantised) {
  return CheckpointIndex::from_bytes(
      share_from_root(comm, [&] { return read_checkpoint_index(directory, quantised).to_bytes(); }));
}

}  // namespace sluice
