#include "weights/weight_map.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Normal form of a relative file name: "a/b" for "./a//b". "" if the name could lead out of its directory,
/// whatever links exist there: each part must be a plain name, and the last one that of a file.
std::string confined(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) return "";
  std::string plain;
  bool is_file = false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == "..") return "";
    is_file = !part.empty() && part != ".";
    if (is_file) plain.append(plain.empty() ? "" : "/").append(part);
    begin = end + 1;
  }
  return is_file ? plain : "";
}

/// Parser of an index, event by event, because a document tree silently keeps one of two equal keys and takes
/// ten times the memory.
class Parser : public Json::json_sax_t {
 public:
  explicit Parser(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] WeightMap finish() {
    if (!has_weight_map_)
      fail({ExitCode::kBadData, "weights.index"}, "{}: there is no object \"weight_map\"", name_);
    if (!unsafe_.empty())
      fail({ExitCode::kBadData, "weights.index"},
           "{}: weight_map names files outside the model directory: {}. Nothing was opened; a genuine "
           "checkpoint names files beside its index.",
           name_, join_some(std::vector(unsafe_.begin(), unsafe_.end())));
    return std::move(map_);
  }

  bool start_object(std::size_t) override {
    if (in_weight_map()) return scalar("an object");
    if (keys_.size() == kDeepest)
      fail({ExitCode::kBadData, "weights.index"}, "{}: objects lie more than {} deep", name_, kDeepest);
    if (keys_.size() == 1 && arrays_ == 0) section_ = key_;
    if (section_ == "weight_map") has_weight_map_ = true;
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool key(std::string& key) override {
    if (!keys_.back().insert(key).second)
      fail({ExitCode::kBadData, "weights.index"}, "{}: the key \"{}\" is there twice", name_, printable(key));
    key_ = key;
    return true;
  }
  bool string(std::string& value) override {
    if (in_weight_map()) {
      map_.tensors.emplace(key_, file_index(value));
      return true;
    }
    return scalar("a string");
  }
  bool number_integer(Json::number_integer_t value) override { return total_size(value); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    return std::in_range<std::int64_t>(value) ? total_size(static_cast<std::int64_t>(value))
                                              : scalar("a number");
  }
  bool number_float(Json::number_float_t, const std::string&) override { return scalar("a number"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool null() override { return scalar("null"); }
  bool binary(Json::binary_t&) override { return scalar("binary data"); }
  bool start_array(std::size_t) override {
    scalar("an array");  // throws if no array is allowed here
    ++arrays_;
    return true;
  }
  bool end_array() override {
    --arrays_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    fail({ExitCode::kBadData, "weights.index"}, "{} is not JSON: {}", name_, printable(error.what()));
  }

 private:
  static constexpr std::size_t kDeepest = 16;

  [[nodiscard]] bool in_weight_map() const {
    return keys_.size() == 2 && arrays_ == 0 && section_ == "weight_map";
  }
  /// Checks a value that is neither an object nor a file name.
  bool scalar(std::string_view what) {
    if (keys_.empty())
      fail({ExitCode::kBadData, "weights.index"}, "{} must be an object, not {}", name_, what);
    if (in_weight_map())
      fail({ExitCode::kBadData, "weights.index"}, "{}: weight_map[\"{}\"] must be a file name, not {}", name_,
           printable(key_), what);
    if (keys_.size() == 1 && key_ == "weight_map")
      fail({ExitCode::kBadData, "weights.index"}, "{}: weight_map must be an object, not {}", name_, what);
    return true;
  }
  bool total_size(std::int64_t value) {
    if (keys_.size() == 2 && arrays_ == 0 && section_ == "metadata" && key_ == "total_size")
      map_.total_size = value;
    return scalar("a number");
  }
  int file_index(const std::string& named) {
    const std::string file = confined(named);
    if (file.empty()) unsafe_.insert('"' + printable(named) + '"');
    const auto [found, added] = files_.emplace(file, static_cast<int>(map_.files.size()));
    if (added) map_.files.push_back(file);
    return found->second;
  }

  std::string name_;
  WeightMap map_;
  std::vector<std::set<std::string>> keys_;  ///< keys so far of each object that is open
  std::unordered_map<std::string, int> files_;
  std::set<std::string> unsafe_;
  std::string key_;
  std::string section_;
  int arrays_ = 0;
  bool has_weight_map_ = false;
};

}  // namespace

WeightMap parse_weight_map(std::string_view json, const std::string& name) {
  Parser parser(name);
  Json::sax_parse(json, &parser);
  return parser.finish();
}

}  // namespace sluice
