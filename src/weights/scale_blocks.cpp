#include "weights/scale_blocks.hpp"

#include "manifest/manifest.hpp"

#include <array>

namespace sluice {

std::vector<ScaleBlocks> possible_scale_blocks(std::span<const std::int64_t> weight,
                                               const std::optional<QuantizationConfig>& config) {
  using Shape = std::vector<std::int64_t>;
  constexpr std::int64_t kUsual = 128;
  const std::int64_t rows = weight[weight.size() - 2], columns = weight.back();
  const std::int64_t all_rows = element_count(weight) / columns;
  const Shape matrices(weight.begin(), weight.end() - 2);
  const auto grid = [&](std::int64_t grid_rows, std::int64_t grid_columns) {
    Shape shape = matrices;
    shape.insert(shape.end(), {grid_rows, grid_columns});
    return shape;
  };
  const auto block = config && config->block ? *config->block : std::array<std::int64_t, 2>{kUsual, kUsual};
  std::vector<ScaleBlocks> blocks{
      {grid((rows + block[0] - 1) / block[0], (columns + block[1] - 1) / block[1]), rows, block[0], block[1]},
      {{}, all_rows, all_rows, columns},
      {{1}, all_rows, all_rows, columns},
      {Shape(weight.size(), 1), all_rows, all_rows, columns},
      {grid(1, 1), rows, rows, columns}};
  if (!matrices.empty()) blocks.push_back({matrices, rows, rows, columns});
  if (config && config->block) return blocks;
  blocks.push_back({grid(rows, 1), rows, 1, columns});
  if (matrices.empty()) blocks.push_back({{rows}, rows, 1, columns});
  return blocks;
}

}  // namespace sluice
