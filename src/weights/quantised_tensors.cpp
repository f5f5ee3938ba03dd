#include "weights/quantised_tensors.hpp"

#include "base/text.hpp"
#include "manifest/manifest.hpp"
#include "weights/foreign_forms.hpp"
#include "weights/problems.hpp"
#include "weights/scale_blocks.hpp"
#include "weights/small_tensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

constexpr std::string_view kPacked = "_packed";
/// Number of 4-bit codes in an int32, and in a byte.
constexpr std::int64_t kCodesOfWord = 8, kCodesOfByte = 2;
using Endings = std::span<const std::string_view>;
/// Endings behind the name of weights of their scales; the last ones are ModelOpt's for fused experts.
constexpr std::array<std::string_view, 4> kScales{"_scale_inv", "_scale", "_weight_scale_inv",
                                                  "_weight_scale"};
/// Endings of the name of the number by which all scales of an NVFP4 tensor are divided, or multiplied.
constexpr std::string_view kDivisor = "_global_scale", kFactor = "_scale_2";
constexpr std::array<std::string_view, 2> kFactors{kFactor, "_weight_scale_2"};
constexpr std::string_view kMxfp4Codes = "_blocks", kMxfp4Scales = "_scales";
constexpr std::string_view kCause =
    "Codes, scales and config.json of one publication belong together. Likely cause: a download that lacks a "
    "file, or a tool that has rewritten a part of them; take all of them anew from where they are published.";
constexpr std::int64_t kMxfp4Bytes = kMxfp4Group / kCodesOfByte;  ///< bytes of a group's codes

std::string without(std::string_view name, std::string_view suffix) {
  return std::string(name.substr(0, name.size() - suffix.size()));
}

bool is_of_projection(std::string_view base) { return base.ends_with("weight") || base.ends_with("_proj"); }

bool has_ending_of_weights(std::string_view name, std::string_view ending) {
  return name.ends_with(ending) && is_of_projection(name.substr(0, name.size() - ending.size()));
}

/// Whether a name is that of weights' scales, not of activations': "….weight_scale",
/// "….gate_up_proj_scale_inv".
bool is_scale_name(std::string_view name) {
  return has_ending_of_weights(name, "_scale_inv") || has_ending_of_weights(name, "_scale");
}

class Joiner {
 public:
  Joiner(CheckpointIndex& index, const fs::path& directory, const std::optional<QuantizationConfig>& config)
      : index_(index),
        directory_(directory),
        config_(config),
        is_joined_(index.entries.size()),
        small_(index, directory) {
    for (int i = 0; i < std::ssize(index.entries); ++i) numbers_.emplace(entry(i).name, i);
  }

  void run() {
    refuse_foreign_forms(index_);
    for (int i = 0; i < std::ssize(index_.entries); ++i) {
      const std::string_view name = entry(i).name;
      if (is_scale_name(name)) continue;
      if (entry(i).dtype == DType::kFloat8E4M3) join_float8(i);
      if (entry(i).dtype == DType::kInt32 && name.ends_with(kPacked)) join_int4(i);
      if (entry(i).dtype != DType::kUInt8) continue;
      if (name.ends_with(kMxfp4Codes))
        join_mxfp4_blocks(i);
      else if (name.ends_with(kPacked))
        join_float4_rows(i, without(name, kPacked));
      else if (is_of_projection(name))
        join_float4_rows(i, std::string(name));
    }
    find_lone_scales();
    compare_with_config();
    problems_.throw_if_any(directory_.string(), kCause);
    drop_joined();
  }

 private:
  CheckpointEntry& entry(int i) { return index_.entries[static_cast<std::size_t>(i)]; }

  /// Text that names an entry: "name (file)".
  [[nodiscard]] std::string described(int i) {
    return fmt::format("{} ({})", printable(entry(i).name),
                       index_.files[static_cast<std::size_t>(entry(i).file)].name);
  }

  [[nodiscard]] std::optional<int> find(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The first of `base` with one of some endings.
  [[nodiscard]] std::optional<int> find(const std::string& base, Endings endings) const {
    for (const std::string_view ending : endings)
      if (const auto found = find(base + std::string(ending))) return found;
    return std::nullopt;
  }

  /// The scales of `base`, if their type is allowed; nothing, with the problem noted, if not.
  std::optional<int> find_scales(int weights, const std::string& base) {
    const std::optional<int> scales = find(base, kScales);
    if (!scales) {
      problems_.add("{} is {} without scales: {}_scale_inv or {}_scale is missing", described(weights),
                    name_of(entry(weights).dtype), printable(base), printable(base));
      return std::nullopt;
    }
    is_joined_[static_cast<std::size_t>(*scales)] = true;
    constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E8M0,
                                DType::kUInt8};
    if (std::ranges::find(kTypes, entry(*scales).dtype) != kTypes.end()) return scales;
    problems_.add("{} is {}, expected float32, bfloat16, float16, float8_e8m0fnu or uint8",
                  described(*scales), name_of(entry(*scales).dtype));
    return std::nullopt;
  }

  void join_float8(int i) {
    const CheckpointEntry& weights = entry(i);
    first_of_.try_emplace(Codes::kFloat8E4M3, described(i));
    const std::optional<int> scales = find_scales(i, weights.name);
    if (!scales) return;
    if (weights.shape.size() < 2 || element_count(weights.shape) == 0)
      return problems_.add("{} is {}, expected a matrix", described(i), shape_text(weights.shape));
    const std::vector<ScaleBlocks> possible =
        possible_scale_blocks(weights.shape, entry(*scales).dtype, config_);
    if (join_with_keys(i, *scales, possible.front())) return;
    const auto found = find_scale_blocks(weights.name, entry(*scales).shape, possible, config_);
    if (!found) return refuse_grid(*scales, i, possible);
    if (is_mxfp8(*found, entry(*scales).dtype, weights.shape.back()) &&
        weights.shape.back() % kMxfp8Block[1] != 0)
      return problems_.add(
          "{} is {}, expected rows of a multiple of {} elements, which share a scale in MXFP8", described(i),
          shape_text(weights.shape), kMxfp8Block[1]);
    encode(i, *scales, weights.shape, Codes::kFloat8E4M3, *found);
  }

  /// Joins keys, or values, that were quantised together head by head, as in full layers of MiMo-V2-Flash: blocks of a
  /// head's rows of keys and, behind them, of values. The block that holds rows of both has its scales among those of
  /// keys. Returns whether weights `i` are such.
  bool join_with_keys(int i, int scales, const ScaleBlocks& block) {
    constexpr std::string_view kKeys = "k_proj.weight", kValues = "v_proj.weight";
    const std::string name = entry(i).name;
    const bool is_values = name.ends_with(kValues);
    if (!is_values && !name.ends_with(kKeys)) return false;
    const std::string layer = name.substr(0, name.size() - kKeys.size());
    const std::optional<int> keys = find(layer + std::string(kKeys)),
                             values = find(layer + std::string(kValues));
    if (!keys || !values) return false;
    const std::optional<int> key_scales = find(entry(*keys).name, kScales),
                             value_scales = find(entry(*values).name, kScales);
    if (!key_scales || !value_scales || entry(*key_scales).dtype != entry(*value_scales).dtype) return false;
    const std::optional<JointHeads> heads =
        find_joint_heads(entry(*keys).shape, entry(*values).shape, entry(*key_scales).shape,
                         entry(*value_scales).shape, {block.rows, block.columns});
    if (!heads) return false;
    if (!is_values) {
      encode(i, scales, entry(i).shape, Codes::kFloat8E4M3, {{}, heads->key_rows, block.rows, block.columns});
      return true;
    }
    encode(i, scales, entry(i).shape, Codes::kFloat8E4M3,
           {{}, heads->value_rows, heads->shared_rows, block.columns});
    Encoding& encoding = index_.encodings.back();
    const CheckpointEntry& shared = entry(*key_scales);
    const std::int64_t row = encoding.grid_columns() * size_of(shared.dtype), rows = heads->key_grid_rows;
    encoding.scale_count = heads->count * encoding.grid_rows() * encoding.grid_columns();
    encoding.shared = {shared.file, shared.begin + (rows - 1) * row, rows * row};
    return true;
  }

  /// Whether scales of this type for these blocks are those of MXFP8. A power of two for a whole row that is shorter
  /// than a block may be a row's scale, unless config.json announces MXFP8.
  [[nodiscard]] bool is_mxfp8(const ScaleBlocks& blocks, DType scales, std::int64_t columns) const {
    if (!blocks.is_of(kMxfp8Block) || (scales != DType::kUInt8 && scales != DType::kFloat8E8M0)) return false;
    return columns > kMxfp8Block[1] ||
           (config_ && std::ranges::any_of(config_->forms, &WeightForm::is_mxfp8));
  }

  void refuse_grid(int scales, int weights, const std::vector<ScaleBlocks>& possible) {
    const ScaleBlocks& blocks = possible.front();
    const std::string by_row =
        possible.back().rows == 1
            ? fmt::format(", {} (for each row)", shape_text({Shape{blocks.matrix_rows, 1}}))
            : "";
    const bool is_said = config_ && std::ranges::any_of(config_->forms, [](const WeightForm& form) {
                           return form.block.has_value();
                         });
    const std::string said = is_said ? fmt::format(", as {} says,", config_->name) : "";
    problems_.add("{} is {}, expected {} (a scale for each {} x {} block{} of {}, which is {}){} or [1]",
                  described(scales), shape_text(entry(scales).shape), shape_text(blocks.scales), blocks.rows,
                  blocks.columns, said, described(weights), shape_text(entry(weights).shape), by_row);
  }

  void join_int4(int i) {
    const CheckpointEntry& packed = entry(i);
    const std::string base = without(packed.name, kPacked);
    first_of_.try_emplace(Codes::kInt4, described(i));
    const std::optional<int> scales = find_scales(i, base);
    const std::optional<int> shape = find(base + "_shape");
    if (!shape)
      problems_.add("{} is there without {}_shape", described(i), printable(base));
    else
      is_joined_[static_cast<std::size_t>(*shape)] = true;
    if (!scales || !shape) return;
    if (packed.shape.size() < 2 || element_count(packed.shape) == 0)
      return problems_.add("{} is {}, expected a matrix", described(i), shape_text(packed.shape));
    Shape weight = packed.shape;
    weight.back() *= kCodesOfWord;
    if (!SmallTensors::may_hold_shape(entry(*shape)))
      return problems_.add("{} is {} {}, expected int32 or int64 [{}]", described(*shape),
                           name_of(entry(*shape).dtype), shape_text(entry(*shape).shape), weight.size());
    if (const Shape told = small_.read_shape(entry(*shape)); told != weight)
      return problems_.add("{} says {}, but {} holds {}", described(*shape), shape_text(told), described(i),
                           shape_text(weight));
    const std::int64_t group = group_size(*scales, i, weight);
    if (group == 0) return;
    encode(i, *scales, weight, Codes::kInt4, {{}, weight[weight.size() - 2], 1, group});
    entry(i).name = base;
  }

  /// Joins MXFP4 codes and scales as gpt-oss publishes them, where the groups of a row lie in the last
  /// dimension.
  void join_mxfp4_blocks(int i) {
    const std::string base = without(entry(i).name, kMxfp4Codes);
    Shape weight = entry(i).shape;
    if (weight.size() < 3 || element_count(weight) == 0 || weight.back() != kMxfp4Bytes)
      return problems_.add("{} is {}, expected [..., rows, groups, {}], which is groups of {}", described(i),
                           shape_text(weight), kMxfp4Bytes, kMxfp4Group);
    weight.pop_back();
    weight.back() *= kMxfp4Group;
    join_float4(i, base, {&kMxfp4Scales, 1}, weight);
  }

  /// Joins 4-bit floating-point codes and scales of compressed-tensors or ModelOpt; the latter keeps the name
  /// of the weights.
  void join_float4_rows(int i, const std::string& base) {
    Shape weight = entry(i).shape;
    if (weight.size() < 2 || element_count(weight) == 0)
      return problems_.add("{} is {}, expected a matrix", described(i), shape_text(weight));
    weight.back() *= kCodesOfByte;
    join_float4(i, base, kScales, weight);
  }

  /// Joins codes of weights of a given shape with their scales, whose type tells MXFP4 from NVFP4.
  void join_float4(int i, const std::string& base, Endings endings, const Shape& weight) {
    first_of_.try_emplace(Codes::kFloat4E2M1, described(i));
    const std::optional<int> scales = find(base, endings);
    const TensorScale of_tensor = find_tensor_scale(i, base, scales, weight);
    if (!scales)
      return problems_.add("{} is there without {}{}", described(i), printable(base),
                           endings.size() == 1 ? endings.front() : "_scale");
    is_joined_[static_cast<std::size_t>(*scales)] = true;
    const DType type = entry(*scales).dtype;
    if (type != DType::kUInt8 && type != DType::kFloat8E8M0 && type != DType::kFloat8E4M3)
      return problems_.add(
          "{} is {}, expected uint8 or float8_e8m0fnu, the exponents of MXFP4, or float8_e4m3fn, the "
          "scales of NVFP4",
          described(*scales), name_of(type));
    const std::int64_t group = float4_group(type, weight, entry(*scales).shape);
    Shape grid = weight;
    grid.back() /= group;
    if (weight.back() % group != 0 || entry(*scales).shape != grid)
      return problems_.add("{} is {}, expected {} (a scale for each group of {} in {}, which is {})",
                           described(*scales), shape_text(entry(*scales).shape), shape_text(grid), group,
                           described(i), shape_text(entry(i).shape));
    encode(i, *scales, weight, Codes::kFloat4E2M1, {{}, weight[weight.size() - 2], 1, group});
    index_.encodings.back().tensor_scale = of_tensor;
    entry(i).name = base;
  }

  /// Number of elements that share a scale in MXFP4 or NVFP4: the usual one, unless config.json announces
  /// another for NVFP4 that fits the scales.
  [[nodiscard]] std::int64_t float4_group(DType scales, const Shape& weight, const Shape& grid) const {
    if (scales != DType::kFloat8E4M3) return kMxfp4Group;
    if (config_)
      for (const WeightForm& form : config_->forms)
        if (form.is_nvfp4 && form.group && *form.group * grid.back() == weight.back()) return *form.group;
    return kNvfp4Group;
  }

  /// The number by which all scales of an NVFP4 tensor are divided or multiplied.
  TensorScale find_tensor_scale(int weights, const std::string& base, std::optional<int> scales,
                                const Shape& weight) {
    const std::optional<int> divisor = find(base + std::string(kDivisor));
    const std::optional<int> number = divisor ? divisor : find(base, kFactors);
    const bool is_nvfp4 = scales && entry(*scales).dtype == DType::kFloat8E4M3;
    if (!number && is_nvfp4)
      problems_.add("{} has float8_e4m3fn scales without {}{} or {}", described(weights), printable(base),
                    kDivisor, kFactor);
    if (!number) return {};
    is_joined_[static_cast<std::size_t>(*number)] = true;
    const std::optional<float> value = read_tensor_scale(*number, weight);
    if (!value) return {};
    return divisor ? TensorScale{1, *value} : TensorScale{*value, 1};
  }

  /// The one number of a tensor, or the one that it has for each matrix of fused experts; nothing, with the
  /// problem noted, if it has others.
  std::optional<float> read_tensor_scale(int number, const Shape& weight) {
    const CheckpointEntry& told = entry(number);
    const std::int64_t count = element_count(told.shape);
    const std::int64_t matrices = element_count(weight) / (weight[weight.size() - 2] * weight.back());
    if (told.dtype != DType::kFloat32 || (count != 1 && count != matrices)) {
      problems_.add("{} is {} {}, expected one float32 number", described(number), name_of(told.dtype),
                    shape_text(told.shape));
      return std::nullopt;
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    small_.read(told, std::as_writable_bytes(std::span(values)));
    const bool is_same = std::ranges::all_of(values, [&](float value) { return value == values.front(); });
    if (is_same && std::isfinite(values.front()) && values.front() > 0) return values.front();
    if (is_same || std::isnan(values.front()))
      problems_.add("{} is {}, expected a positive number", described(number), values.front());
    else
      problems_.add("{} has different numbers for the experts, expected the same number for each",
                    described(number));
    return std::nullopt;
  }

  /// Number of consecutive elements of a row that share a scale; 0, with the problem noted, if it is not
  /// allowed.
  std::int64_t group_size(int scales, int weights, const Shape& weight) {
    const Shape& grid = entry(scales).shape;
    const bool fits =
        grid.size() == weight.size() && std::equal(grid.begin(), grid.end() - 1, weight.begin());
    const std::int64_t columns = weight.back();
    if (!fits || grid.back() < 1 || columns % grid.back() != 0 || columns / grid.back() % kCodesOfWord != 0) {
      problems_.add(
          "{} is {}, expected groups of equal size, a multiple of {}, that divide the rows of {}, which is "
          "{}",
          described(scales), shape_text(grid), kCodesOfWord, described(weights), shape_text(weight));
      return 0;
    }
    const std::int64_t group = columns / grid.back();
    const std::vector<std::int64_t> announced = announced_groups(Codes::kInt4);
    if (announced.empty() || std::ranges::find(announced, group) != announced.end()) return group;
    problems_.add("{} has groups of {}, but {} says group_size {}", described(scales), group, config_->name,
                  fmt::join(announced, " or "));
    return 0;
  }

  /// Group sizes that config.json announces for 4-bit codes; empty: any.
  [[nodiscard]] std::vector<std::int64_t> announced_groups(Codes codes) const {
    std::vector<std::int64_t> groups;
    if (!config_ || config_->is_open) return groups;
    for (const WeightForm& form : config_->forms) {
      if (form.codes != codes) continue;
      if (!form.group) return {};
      groups.push_back(*form.group);
    }
    return groups;
  }

  void encode(int i, int scales, Shape shape, Codes codes, const ScaleBlocks& blocks) {
    const CheckpointEntry& from = entry(scales);
    CheckpointEntry& weights = entry(i);
    weights.encoding = static_cast<int>(index_.encodings.size());
    index_.encodings.push_back({codes, from.dtype, from.file, from.begin, element_count(from.shape),
                                blocks.matrix_rows, shape.back(), blocks.rows, blocks.columns, TensorScale{},
                                SharedScales{}});
    weights.dtype = DType::kBFloat16;
    weights.shape = std::move(shape);
  }

  void find_lone_scales() {
    for (int i = 0; i < std::ssize(index_.entries); ++i) {
      const std::string& name = entry(i).name;
      if (is_joined_[static_cast<std::size_t>(i)]) continue;
      if (is_scale_name(name))
        problems_.add("{} has no quantised weights: {} is missing, or of a type without scales", described(i),
                      printable(name.substr(0, name.rfind("_scale"))));
      else if (name.ends_with(".weight_shape"))
        problems_.add("{} has no quantised weights: {}_packed is missing", described(i),
                      printable(without(name, "_shape")));
      else if (has_ending_of_weights(name, kDivisor) || has_ending_of_weights(name, kFactor))
        problems_.add("{} has no quantised weights, or none in 4-bit floating point", described(i));
      else if (has_ending_of_weights(name, kMxfp4Scales))
        problems_.add("{} has no quantised weights: {}{} is missing, or not uint8", described(i),
                      printable(without(name, kMxfp4Scales)), kMxfp4Codes);
    }
  }

  void compare_with_config() {
    if (!config_ || config_->is_open) return;
    // Of several forms the files may lack some, as config.json announces them for parts of a model.
    const bool is_held = std::ranges::any_of(
        config_->forms, [&](const WeightForm& form) { return first_of_.contains(form.codes); });
    for (const auto& [codes, name] : {std::pair(Codes::kFloat8E4M3, "FP8"), std::pair(Codes::kInt4, "INT4"),
                                      std::pair(Codes::kFloat4E2M1, "MXFP4 or NVFP4")}) {
      const auto first = first_of_.find(codes);
      if (first == first_of_.end() && !is_held && config_->announces(codes))
        problems_.add(
            "{} names weights in {}, but the files hold none: it belongs to another checkpoint, or has to be "
            "removed",
            config_->name, name);
      if (first != first_of_.end() && !config_->announces(codes))
        problems_.add(
            "{} names no weights in {}, but the files hold some, first {}: it belongs to another checkpoint, "
            "or has to be corrected",
            config_->name, name, first->second);
    }
  }

  void drop_joined() {
    std::size_t i = 0;
    std::erase_if(index_.entries, [&](const CheckpointEntry&) { return is_joined_[i++]; });
  }

  CheckpointIndex& index_;
  const fs::path& directory_;
  const std::optional<QuantizationConfig>& config_;
  std::vector<bool> is_joined_;  ///< whether a tensor is the scale or shape of another one
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<Codes, std::string> first_of_;  ///< first tensor of each kind of codes, with its file
  SmallTensors small_;
  Problems problems_;
};

}  // namespace

void join_quantised(CheckpointIndex& index, const fs::path& directory,
                    const std::optional<QuantizationConfig>& config) {
  Joiner(index, directory, config).run();
}

}  // namespace sluice
