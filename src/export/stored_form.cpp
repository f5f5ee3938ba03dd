#include "export/stored_form.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace sluice {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kUsualGroup = 32, kMxfp4Bytes = 16, kCodesOfWord = 8;

/// What a tensor of that shape becomes; nothing: it keeps its element type.
std::optional<Codes> codes_of(std::string_view name, const Shape& shape, const TensorInfo& info,
                              const std::optional<QuantizationConfig>& config) {
  if (!config || shape.size() < 2) return std::nullopt;
  if (!name.ends_with("weight") && !name.ends_with("_proj")) return std::nullopt;
  constexpr std::string_view kWeight = ".weight";
  const std::string_view module =
      name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
  if (config->plain.contain(module)) return std::nullopt;
  const bool is_expert = info.role == Role::kExpert;
  const bool is_projection = is_expert || (info.layer >= 0 && name.find("_proj") != std::string_view::npos);
  for (const Codes codes : config->codes) {
    const bool is_float8 = codes == Codes::kFloat8E4M3;
    if (is_float8 ? !is_projection : !is_expert) continue;
    const std::int64_t group = codes == Codes::kInt4 ? config->group.value_or(kUsualGroup) : kUsualGroup;
    if (is_float8 || shape.back() % group == 0) return codes;
  }
  return std::nullopt;
}

Encoding encoding_of(Codes codes, const Shape& shape, const QuantizationConfig& config) {
  Encoding encoding{.codes = codes, .rows = shape[shape.size() - 2], .columns = shape.back()};
  encoding.block_rows = 1;
  if (codes == Codes::kFloat8E4M3) {
    encoding.scale_type = DType::kFloat32;
    encoding.block_columns = encoding.columns;
    if (config.block) {
      encoding.block_rows = config.block->front();
      encoding.block_columns = config.block->back();
    }
  } else if (codes == Codes::kInt4) {
    encoding.scale_type = DType::kBFloat16;
    encoding.block_columns = config.group.value_or(kUsualGroup);
  } else {
    encoding.scale_type = DType::kUInt8;
    encoding.block_columns = kUsualGroup;
  }
  const std::int64_t matrices = element_count(shape) / (encoding.rows * encoding.columns);
  encoding.scale_count = matrices * encoding.grid_rows() * encoding.grid_columns();
  return encoding;
}

/// Codes, scales and what else belongs to these, as they are published.
std::vector<StoredTensor> parts_of(const std::string& name, const Shape& shape, const Encoding& encoding) {
  Shape grid = shape, codes = shape;
  grid[grid.size() - 2] = encoding.grid_rows();
  grid.back() = encoding.grid_columns();
  switch (encoding.codes) {
    case Codes::kFloat8E4M3:
      return {{name, DType::kFloat8E4M3, shape, StoredPart::kCodes},
              {name + (encoding.block_rows > 1 ? "_scale_inv" : "_scale"), encoding.scale_type, grid,
               StoredPart::kScales}};
    case Codes::kInt4:
      codes.back() /= kCodesOfWord;
      return {{name + "_packed", DType::kInt32, codes, StoredPart::kCodes},
              {name + "_scale", encoding.scale_type, grid, StoredPart::kScales},
              {name + "_shape", DType::kInt32, {std::ssize(shape)}, StoredPart::kShape}};
    case Codes::kFloat4E2M1:
      codes.back() /= kUsualGroup;
      codes.push_back(kMxfp4Bytes);
      return {{name + "_blocks", DType::kUInt8, codes, StoredPart::kCodes},
              {name + "_scales", encoding.scale_type, grid, StoredPart::kScales}};
    case Codes::kBFloat16:
      break;
  }
  return {};
}

}  // namespace

StoredForm stored_form(const PublishedTensor& published, const KeyMap& keys,
                       const std::optional<QuantizationConfig>& config) {
  const TensorInfo& info = keys.manifest()[published.target.tensor()];
  StoredForm form{std::get<KeyTarget>(keys.resolve(published.name, /*quantised=*/true)), {}, {}};
  const std::optional<Codes> codes = codes_of(published.name, form.target.shape, info, config);
  if (!codes)
    return {
        published.target, {}, {{published.name, info.dtype, published.target.shape, StoredPart::kValues}}};
  form.encoding = encoding_of(*codes, form.target.shape, *config);
  form.tensors = parts_of(published.name, form.target.shape, *form.encoding);
  return form;
}

}  // namespace sluice
