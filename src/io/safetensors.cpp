#include "io/safetensors.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "base/text.hpp"
#include "io/safetensors_json.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kPrefixBytes = 8;
/// Limit of the reference reader on the header, in bytes; decimal.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::int64_t kAlignment = 8;

std::uint64_t from_little_endian(const std::array<std::byte, kPrefixBytes>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

/// Elements times element size, or nothing when that passes 2^63 - 1 on the way, as the reference computes
/// it.
std::optional<std::int64_t> byte_count(const std::vector<std::int64_t>& shape, DType dtype) {
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t dimension : shape) {
    product = multiply(*product, dimension);
    if (!product) return std::nullopt;
  }
  return multiply(*product, size_of(dtype));
}

/// What a file that is not a safetensors file seems to be, for error messages.
std::string_view likely_cause(std::string_view start) {
  if (start.starts_with("version https://git-lfs"))
    return "; this is a git-lfs pointer, not the weights: run git lfs pull in the model directory";
  if (start.starts_with("<!") || start.starts_with("<html") || start.starts_with("<HTML"))
    return "; this is a web page, probably an error page saved by a download: fetch the file again";
  if (start.starts_with("PK\x03\x04") || start.starts_with("\x80\x02"))
    return "; this looks like a PyTorch pickle: convert the model with "
           "save_pretrained(safe_serialization=True)";
  if (start.starts_with("GGUF")) return "; this is a GGUF file: use the model's safetensors files";
  if (start.starts_with("\x89HDF")) return "; this is an HDF5 file";
  return "";
}

std::string likely_cause(const InputFile& file) {
  std::string start(static_cast<std::size_t>(std::min<std::int64_t>(file.size_bytes(), 64)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return std::string(likely_cause(std::string_view(start)));
}

/// Interprets one tensor's numbers, and checks them against each other and against the `data_bytes` bytes of
/// data.
class EntryParser {
 public:
  EntryParser(const std::string& file, std::int64_t data_begin, std::int64_t data_bytes)
      : file_(file), data_begin_(data_begin), data_bytes_(data_bytes) {}

  [[nodiscard]] SafetensorsEntry operator()(RawTensor raw) const {
    const std::int64_t begin = raw.offsets[0];
    const std::int64_t end = raw.offsets[1];
    if (begin > end)
      reject(raw, "offset-order", fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    if (end > data_bytes_)
      reject(
          raw, "offset-range",
          fmt::format(
              "data_offsets [{}, {}] pass the end of the data, which has {} bytes; the file may be cut short",
              begin, end, data_bytes_));
    const DType dtype = dtype_of(raw);
    const std::optional<std::int64_t> bytes = byte_count(raw.shape, dtype);
    if (!bytes)
      reject(raw, "shape-overflow", fmt::format("shape {} has too many elements", shape_text(raw.shape)));
    if (*bytes != end - begin)
      reject(raw, "size-matches-shape",
             fmt::format("shape {} of {} needs {} bytes, data_offsets [{}, {}] hold {}",
                         shape_text(raw.shape), raw.dtype, *bytes, begin, end, end - begin));
    return {std::move(raw.name), dtype, std::move(raw.shape), data_begin_ + begin, *bytes};
  }

 private:
  [[noreturn]] void reject(const RawTensor& raw, std::string_view rule, const std::string& found) const {
    reject_safetensors(file_, rule, fmt::format("tensor '{}': {}", printable(raw.name), found));
  }

  [[nodiscard]] DType dtype_of(const RawTensor& raw) const {
    const std::optional<DType> dtype = dtype_from_safetensors(raw.dtype);
    if (!dtype)
      reject(raw, "dtype",
             fmt::format("element type '{}' is not supported; supported are BOOL, U8 to U64, I8 to I64, "
                         "F16, BF16, F32, F64, F8_E4M3, F8_E5M2 and F8_E8M0",
                         printable(raw.dtype, 40)));
    return *dtype;
  }

  const std::string& file_;
  std::int64_t data_begin_;
  std::int64_t data_bytes_;
};

/// Every byte of the data belongs to exactly one tensor. `entries` are sorted by begin, then by length.
void check_tiling(const std::vector<SafetensorsEntry>& entries, std::int64_t data_begin,
                  std::int64_t file_bytes, const std::string& file) {
  std::int64_t expected = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t gap = entry.begin - expected;
    if (gap < 0)
      reject_safetensors(file, "no-overlap",
                         fmt::format("tensor '{}' begins {} bytes before the one before it ends",
                                     printable(entry.name), -gap));
    if (gap > 0)
      reject_safetensors(
          file, "no-hole",
          fmt::format("{} bytes before tensor '{}' belong to no tensor", gap, printable(entry.name)));
    expected += entry.bytes;
  }
  if (expected != file_bytes)
    reject_safetensors(
        file, "no-tail",
        fmt::format("{} bytes after the last tensor belong to no tensor", file_bytes - expected));
}

std::string json_text(std::string_view text) {
  SLUICE_ASSERT(valid_utf8_prefix(text) == text.size(), "'{}' is not UTF-8", printable(text));
  return nlohmann::json(text).dump();
}

/// Header as JSON text, written entry by entry: the library's JSON object would look up every key in all
/// others.
std::string header_json(const std::vector<SafetensorsEntry>& entries,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> items;
  if (!metadata.empty()) items.push_back("\"__metadata__\":" + nlohmann::json(metadata).dump());
  std::unordered_set<std::string_view> names{"__metadata__"};
  for (const SafetensorsEntry& entry : entries) {
    SLUICE_ASSERT(names.insert(entry.name).second, "the tensor name '{}' is taken already",
                  printable(entry.name));
    items.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                json_text(entry.name), safetensors_name(entry.dtype),
                                fmt::join(entry.shape, ","), entry.begin, entry.begin + entry.bytes));
  }
  return fmt::format("{{{}}}", fmt::join(items, ","));
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::string name = file.path().string();
  const std::int64_t size = file.size_bytes();
  if (size < kPrefixBytes)
    reject_safetensors(name, "prefix",
                       fmt::format("it has {} bytes, fewer than the {} of its length prefix{}", size,
                                   kPrefixBytes, likely_cause(file)));
  std::array<std::byte, kPrefixBytes> prefix;
  file.read_at(0, prefix);
  const std::uint64_t header_bytes = from_little_endian(prefix);
  if (header_bytes > kMaxHeaderBytes)
    reject_safetensors(name, "header-limit",
                       fmt::format("its header has {} bytes by its prefix, more than the {} allowed{}",
                                   header_bytes, kMaxHeaderBytes, likely_cause(file)));
  if (header_bytes > static_cast<std::uint64_t>(size - kPrefixBytes))
    reject_safetensors(name, "header-fits",
                       fmt::format("its header has {} bytes by its prefix, but the file has {}{}",
                                   header_bytes, size, likely_cause(file)));
  std::string header(static_cast<std::size_t>(header_bytes), '\0');
  file.read_at(kPrefixBytes, std::as_writable_bytes(std::span(header)));
  return parse_safetensors_header(header, size, name);
}

SafetensorsHeader parse_safetensors_header(std::string_view header_json, std::int64_t file_bytes,
                                           const std::string& name) {
  const std::int64_t data_begin = kPrefixBytes + static_cast<std::int64_t>(header_json.size());
  if (file_bytes < data_begin)
    reject_safetensors(
        name, "header-fits",
        fmt::format("its header ends at byte {}, but the file has {}", data_begin, file_bytes));
  RawHeader raw = parse_safetensors_json(header_json, name);
  const EntryParser parse_entry(name, data_begin, file_bytes - data_begin);
  SafetensorsHeader header;
  header.metadata = std::move(raw.metadata);
  header.data_begin = data_begin;
  header.entries.reserve(raw.tensors.size());
  for (RawTensor& tensor : raw.tensors) header.entries.push_back(parse_entry(std::move(tensor)));
  // Empty tensors share the offset of what follows them, so entries are sorted by offset, then by length.
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.bytes) < std::tie(b.begin, b.bytes);
  });
  check_tiling(header.entries, data_begin, file_bytes, name);
  return header;
}

std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata) {
  std::optional<std::int64_t> end = 0;
  for (SafetensorsEntry& entry : entries) {
    const std::optional<std::int64_t> bytes = byte_count(entry.shape, entry.dtype);
    SLUICE_ASSERT(bytes, "shape {} of '{}' has too many elements", shape_text(entry.shape),
                  printable(entry.name));
    entry.begin = *end;
    entry.bytes = *bytes;
    end = add(*end, *bytes);
    SLUICE_ASSERT(end, "the file would pass 2^63 bytes at '{}'", printable(entry.name));
  }
  std::string json = header_json(entries, metadata);
  json.resize(round_up(json.size(), static_cast<std::size_t>(kAlignment)), ' ');
  SLUICE_ASSERT(json.size() <= kMaxHeaderBytes, "a header of {} bytes passes the format's limit",
                json.size());
  std::string out(kPrefixBytes, '\0');
  for (std::size_t i = 0; i < kPrefixBytes; ++i) out[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  for (SafetensorsEntry& entry : entries)
    entry.begin += static_cast<std::int64_t>(kPrefixBytes + json.size());
  return out + json;
}

}  // namespace sluice
