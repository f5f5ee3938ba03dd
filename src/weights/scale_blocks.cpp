#include "weights/scale_blocks.hpp"

#include "base/round.hpp"
#include "manifest/manifest.hpp"

#include <algorithm>

namespace sluice {
namespace {

using Block = std::array<std::int64_t, 2>;
using Shape = std::vector<std::int64_t>;

constexpr Block kUsualBlock{128, 128};

bool is_float8(const WeightForm& form) { return form.codes == Codes::kFloat8E4M3; }

/// Blocks of FP8 weights that config.json announces, in its order.
std::vector<Block> announced_blocks(const std::optional<QuantizationConfig>& config) {
  std::vector<Block> blocks;
  if (!config) return blocks;
  for (const WeightForm& form : config->forms)
    if (is_float8(form) && form.block) blocks.push_back(*form.block);
  return blocks;
}

/// Whether config.json announces FP8 weights in blocks alone.
bool has_blocks_alone(const std::optional<QuantizationConfig>& config) {
  return config && !config->is_open && config->announces(Codes::kFloat8E4M3) &&
         std::ranges::all_of(config->forms,
                             [](const WeightForm& form) { return !is_float8(form) || form.block; });
}

}  // namespace

std::vector<ScaleBlocks> possible_scale_blocks(std::span<const std::int64_t> weight, DType scale_type,
                                               const std::optional<QuantizationConfig>& config) {
  const std::int64_t rows = weight[weight.size() - 2], columns = weight.back();
  const std::int64_t all_rows = element_count(weight) / columns;
  const Shape matrices(weight.begin(), weight.end() - 2);
  const auto grid = [&](std::int64_t grid_rows, std::int64_t grid_columns) {
    Shape shape = matrices;
    shape.insert(shape.end(), {grid_rows, grid_columns});
    return shape;
  };
  std::vector<Block> sizes = announced_blocks(config);
  const bool has_others = !has_blocks_alone(config);
  if (has_others) sizes.push_back(kUsualBlock);
  if (has_others && (scale_type == DType::kUInt8 || scale_type == DType::kFloat8E8M0))
    sizes.push_back(kMxfp8Block);
  std::vector<ScaleBlocks> blocks;
  for (const Block& size : sizes) {
    const std::int64_t grid_rows = divide_up(rows, size[0]), grid_columns = divide_up(columns, size[1]);
    blocks.push_back({grid(grid_rows, grid_columns), rows, size[0], size[1]});
    // As ModelOpt writes them.
    if (matrices.empty()) blocks.push_back({{grid_rows, 1, grid_columns, 1}, rows, size[0], size[1]});
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape(weight.size(), 1)})
    blocks.push_back({shape, all_rows, all_rows, columns});
  blocks.push_back({grid(1, 1), rows, rows, columns});
  if (!matrices.empty()) blocks.push_back({matrices, rows, rows, columns});
  if (!has_others) return blocks;
  blocks.push_back({grid(rows, 1), rows, 1, columns});
  Shape by_row = matrices;
  by_row.push_back(rows);
  blocks.push_back({by_row, rows, 1, columns});
  return blocks;
}

std::optional<ScaleBlocks> find_scale_blocks(std::string_view name, std::span<const std::int64_t> scales,
                                             const std::vector<ScaleBlocks>& possible,
                                             const std::optional<QuantizationConfig>& config) {
  std::vector<ScaleBlocks> fitting;
  for (const ScaleBlocks& blocks : possible)
    if (std::ranges::equal(blocks.scales, scales)) fitting.push_back(blocks);
  if (fitting.empty()) return std::nullopt;
  const auto fits = [&](const Block& block) {
    return std::ranges::any_of(fitting, [&](const ScaleBlocks& blocks) { return blocks.is_of(block); });
  };
  const std::vector<Block> announced = announced_blocks(config);
  if (std::ranges::count_if(announced, fits) > 1)
    for (const WeightForm& form : config->forms_for(module_of(name)))
      if (is_float8(form) && form.block && fits(*form.block))
        return *std::ranges::find_if(fitting,
                                     [&](const ScaleBlocks& blocks) { return blocks.is_of(*form.block); });
  return fitting.front();
}

std::optional<JointHeads> find_joint_heads(std::span<const std::int64_t> keys,
                                           std::span<const std::int64_t> values,
                                           std::span<const std::int64_t> key_scales,
                                           std::span<const std::int64_t> value_scales,
                                           const std::array<std::int64_t, 2>& block) {
  for (const auto& shape : {keys, values, key_scales, value_scales})
    if (shape.size() != 2) return std::nullopt;
  const auto [rows, columns] = block;
  if (keys[1] != values[1] || key_scales[1] != divide_up(keys[1], columns) ||
      key_scales[1] != value_scales[1] || key_scales[0] == divide_up(keys[0], rows))
    return std::nullopt;
  for (std::int64_t heads = 1; heads <= value_scales[0]; ++heads) {
    if (keys[0] % heads != 0 || values[0] % heads != 0) continue;
    const std::int64_t key_rows = keys[0] / heads, value_rows = values[0] / heads;
    const std::int64_t key_grid_rows = divide_up(key_rows, rows), shared = key_grid_rows * rows - key_rows;
    if (shared > 0 && shared < value_rows && value_rows <= 2 * shared &&
        key_scales[0] == heads * key_grid_rows && value_scales[0] == heads)
      return JointHeads{heads, key_rows, value_rows, key_grid_rows, shared};
  }
  return std::nullopt;
}

}  // namespace sluice
