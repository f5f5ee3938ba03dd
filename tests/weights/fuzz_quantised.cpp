// libFuzzer target: any header of any tensors, beside any quantization_config, either is refused by
// Error(kBadData), or becomes tensors whose codes and scales lie in the file, as many as their shapes need.
//
//   fuzz_quantised -max_total_time=60 tests/weights/corpus_quantised
//
// An input is a line with the quantization_config, which may be empty, a line with the header of a
// safetensors file, and the data behind that.

#include "base/error.hpp"
#include "encoding/dequantise.hpp"
#include "io/json_object.hpp"
#include "io/safetensors.hpp"
#include "manifest/manifest.hpp"
#include "weights/quantised_tensors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace sluice;

constexpr const char* kFile = "model.safetensors";

/// Of this process, as several fuzzers may run at once.
const std::filesystem::path& directory() {
  static const std::filesystem::path path = [] {
    auto made = std::filesystem::temp_directory_path() / fmt::format("fuzz-quantised-{}", ::getpid());
    std::filesystem::create_directories(made);
    std::atexit([] { std::filesystem::remove_all(directory()); });
    return made;
  }();
  return path;
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const CheckpointIndex& index, const CheckpointEntry& entry, std::string_view file) {
  const Encoding* const encoding = index.encoding_of(entry);
  if (encoding == nullptr) return;
  const std::int64_t count = element_count(entry.shape);
  require(count > 0 && encoding->code_bytes(count) == entry.bytes);
  const Range scales = encoding->scales_of({0, count});
  require(scales.begin == 0 && scales.end == encoding->scale_count);
  require(encoding->scale_begin >= 8);
  require(encoding->scale_begin + encoding->scale_bytes() <= std::ssize(file));
  constexpr std::int64_t kMost = 1 << 16;
  if (count > kMost) return;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(count));
  const auto* const bytes = reinterpret_cast<const std::byte*>(file.data());
  dequantise(*encoding, {0, count}, bytes + entry.begin, bytes + encoding->scale_begin, DType::kBFloat16,
             reinterpret_cast<std::byte*>(numbers.data()));
}

void join(std::string_view config, std::string_view header, std::string_view data) {
  std::optional<QuantizationConfig> quantization;
  if (!config.empty())
    quantization = read_quantization(
        ConfigReader::parse(fmt::format("{{\"quantization_config\": {}}}", config), "fuzz"));
  const std::string file = std::string(8, '\0').append(header).append(data);
  CheckpointIndex index;
  index.directory = directory().string();
  index.files = {{kFile, std::ssize(file)}};
  for (const SafetensorsEntry& entry : parse_safetensors_header(header, std::ssize(file), "fuzz").entries)
    index.entries.push_back({entry.name, 0, entry.dtype, entry.shape, entry.begin, entry.bytes});
  std::ofstream(directory() / kFile, std::ios::binary) << file;
  join_quantised(index, directory(), quantization);
  for (const CheckpointEntry& entry : index.entries) check(index, entry, file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view config = take_line(rest), header = take_line(rest);
  try {
    join(config, header, rest);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) std::abort();
  }
  return 0;
}
