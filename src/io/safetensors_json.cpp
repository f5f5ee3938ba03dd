#include "io/safetensors_json.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr int kMaxIgnoredDepth =
    125;  ///< levels of nesting: the reference parser's limit of 128, less the three that have a meaning

/// Handler of the parser's events. Keeps only what the format knows, so that nothing grows with nesting; the
/// library's parser keeps one bit per level. Names of events are nlohmann's.
class HeaderEvents {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}
  RawHeader take() { return std::move(header_); }

  bool null() { return place_ == Place::kTop && key_ == "__metadata__" ? note_metadata() : scalar("null"); }
  bool boolean(bool value) { return scalar(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return scalar(fmt::format("{}, a negative number", value)); }
  bool number_unsigned(std::uint64_t value);
  bool number_float(double, const std::string& text) {
    return scalar(printable(text, 40) + ", not a whole number in range");
  }
  bool string(std::string& value);
  bool binary(Json::binary_t&) { return scalar("binary"); }
  bool start_object(std::size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool parse_error(std::size_t offset, const std::string&, const Json::exception& error);

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets, kIgnored };

  [[noreturn]] void reject(std::string_view rule, const std::string& found) const {
    reject_safetensors(file_, rule, found);
  }
  RawTensor& tensor() { return header_.tensors.back(); }
  [[nodiscard]] std::string where() const {
    return fmt::format("tensor '{}': {}", printable(header_.tensors.back().name), printable(key_));
  }
  [[nodiscard]] bool is_known_field() const {
    return std::find(kFields.begin(), kFields.end(), key_) != kFields.end();
  }
  bool scalar(const std::string& found);
  bool note_metadata();
  bool begin_tensor();
  void note_field();
  bool begin_ignored();
  bool end_ignored();

  static constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

  const std::string& file_;
  RawHeader header_;
  Place place_ = Place::kOutside;
  std::string key_;
  int ignored_depth_ = 0;
  bool has_metadata_ = false;
  std::array<bool, kFields.size()> has_field_{};
};

/// Handles a scalar: a fault unless a number or text is legal in this place.
bool HeaderEvents::scalar(const std::string& found) {
  switch (place_) {
    case Place::kOutside:
      reject("header-object", "the header is " + found + ", not a JSON object");
    case Place::kTop:
      reject("entry-object", fmt::format("entry '{}' is {}, not an object", printable(key_), found));
    case Place::kMetadata:
      reject("metadata-text", fmt::format("__metadata__ entry '{}' is {}, not text", printable(key_), found));
    case Place::kShape:
      reject("shape-entries", where() + " has the entry " + found);
    case Place::kOffsets:
      reject("offset-entries", where() + " has the entry " + found);
    case Place::kTensor:
      if (is_known_field()) reject("field-type", where() + " is " + found);
      return true;
    case Place::kIgnored:
      return true;
  }
  return false;
}

bool HeaderEvents::number_unsigned(std::uint64_t value) {
  if (place_ != Place::kShape && place_ != Place::kOffsets) return scalar(fmt::format("{}", value));
  if (!std::in_range<std::int64_t>(value)) return scalar(fmt::format("{}, more than 2^63 - 1", value));
  std::vector<std::int64_t>& list = place_ == Place::kShape ? tensor().shape : tensor().offsets;
  if (place_ == Place::kShape && list.size() == kMaxRank)
    reject("shape-rank", fmt::format("{} has more than {} dimensions", where(), kMaxRank));
  if (place_ == Place::kOffsets && list.size() == 2)
    reject("offset-pair", where() + " has more than two entries");
  list.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool HeaderEvents::string(std::string& value) {
  if (place_ == Place::kMetadata) {
    if (!header_.metadata.emplace(key_, std::move(value)).second)
      reject("duplicate-key", fmt::format("__metadata__ has the key '{}' twice", printable(key_)));
    return true;
  }
  if (place_ != Place::kTensor || key_ != "dtype")
    return scalar(fmt::format("the text \"{}\"", printable(value, 40)));
  note_field();
  tensor().dtype = std::move(value);
  return true;
}

bool HeaderEvents::start_object(std::size_t) {
  switch (place_) {
    case Place::kOutside:
      place_ = Place::kTop;
      return true;
    case Place::kTop:
      if (key_ != "__metadata__") return begin_tensor();
      place_ = Place::kMetadata;
      return note_metadata();
    case Place::kIgnored:
      return begin_ignored();
    case Place::kTensor:
      return is_known_field() ? scalar("an object") : begin_ignored();
    default:
      return scalar("an object");
  }
}

bool HeaderEvents::start_array(std::size_t) {
  if (place_ == Place::kIgnored) return begin_ignored();
  if (place_ != Place::kTensor || key_ == "dtype") return scalar("a list");
  if (!is_known_field()) return begin_ignored();
  note_field();
  place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
  return true;
}

bool HeaderEvents::key(std::string& name) {
  if (place_ != Place::kIgnored) key_ = std::move(name);
  return true;
}

bool HeaderEvents::end_object() {
  if (place_ == Place::kIgnored) return end_ignored();
  if (place_ == Place::kTensor) {
    for (std::size_t i = 0; i < kFields.size(); ++i)
      if (!has_field_[i])
        reject("missing-field", fmt::format("tensor '{}' has no {}", printable(tensor().name), kFields[i]));
    if (tensor().offsets.size() != 2)
      reject("offset-pair", fmt::format("tensor '{}': data_offsets has {} entries, not two",
                                        printable(tensor().name), tensor().offsets.size()));
  }
  place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
  return true;
}

bool HeaderEvents::end_array() {
  if (place_ == Place::kIgnored) return end_ignored();
  place_ = Place::kTensor;
  return true;
}

bool HeaderEvents::parse_error(std::size_t offset, const std::string&, const Json::exception& error) {
  reject("valid-json",
         fmt::format("the header stops being JSON at byte {}: {}", offset, printable(error.what(), 200)));
}

bool HeaderEvents::note_metadata() {
  if (std::exchange(has_metadata_, true)) reject("duplicate-key", "the key '__metadata__' appears twice");
  return true;
}

bool HeaderEvents::begin_tensor() {
  if (key_.size() > kMaxNameBytes)
    reject("name-length", fmt::format("the tensor name '{}' has {} bytes; {} are allowed", printable(key_),
                                      key_.size(), kMaxNameBytes));
  header_.tensors.emplace_back().name = key_;
  has_field_.fill(false);
  place_ = Place::kTensor;
  return true;
}

void HeaderEvents::note_field() {
  const auto index =
      static_cast<std::size_t>(std::find(kFields.begin(), kFields.end(), key_) - kFields.begin());
  if (std::exchange(has_field_[index], true)) reject("duplicate-key", where() + " appears twice");
}

bool HeaderEvents::begin_ignored() {
  place_ = Place::kIgnored;
  if (++ignored_depth_ > kMaxIgnoredDepth)
    reject("nesting", fmt::format("{} is nested more than {} levels deep", where(), kMaxIgnoredDepth));
  return true;
}

bool HeaderEvents::end_ignored() {
  if (--ignored_depth_ == 0) place_ = Place::kTensor;
  return true;
}

/// The library keeps the last of equal keys; the format forbids them, so that all readers see the same file.
void check_names_differ(const std::vector<RawTensor>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const RawTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    reject_safetensors(file, "duplicate-key",
                       fmt::format("the tensor name '{}' appears twice", printable(*twice)));
}

}  // namespace

RawHeader parse_safetensors_json(std::string_view json, const std::string& file) {
  if (const std::size_t valid = valid_utf8_prefix(json); valid != json.size())
    reject_safetensors(file, "valid-utf8", fmt::format("the header is not UTF-8 at byte {}", valid));
  // The library would skip a byte order mark, and take a NUL for the end of the text.
  if (json.starts_with("\xef\xbb\xbf"))
    reject_safetensors(file, "valid-json", "the header begins with a byte order mark");
  if (const std::size_t nul = json.find('\0'); nul != std::string_view::npos)
    reject_safetensors(file, "valid-json",
                       fmt::format("the header stops being JSON at byte {}: a NUL byte", nul));
  HeaderEvents events(file);
  Json::sax_parse(json.begin(), json.end(), &events);
  RawHeader header = events.take();
  check_names_differ(header.tensors, file);
  return header;
}

void reject_safetensors(const std::string& file, std::string_view rule, const std::string& found) {
  fail({ExitCode::kBadData, "io.safetensors"}, "{} is not a valid safetensors file: {} (rule {})", file,
       found, rule);
}

}  // namespace sluice
