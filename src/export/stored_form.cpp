#include "export/stored_form.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace sluice {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kCodesOfByte = 2, kCodesOfWord = 8;

/// Form for a tensor of this name and shape; nothing: it keeps its element type.
std::optional<WeightForm> form_of(std::string_view name, const Shape& shape, const TensorInfo& info,
                                  const std::optional<QuantizationConfig>& config) {
  if (!config || shape.size() < 2) return std::nullopt;
  if (!name.ends_with("weight") && !name.ends_with("_proj")) return std::nullopt;
  const std::string_view module = module_of(name);
  if (config->plain.contain(module)) return std::nullopt;
  const bool is_expert = info.role == Role::kExpert;
  const bool is_projection = is_expert || (info.layer >= 0 && name.find("_proj") != std::string_view::npos);
  for (const WeightForm& form : config->forms_for(module)) {
    const bool is_float8 = form.codes == Codes::kFloat8E4M3;
    if (is_float8 ? !is_projection : !is_expert) continue;
    if (form.takes_rows_of(shape.back())) return form;
  }
  return std::nullopt;
}

Encoding encoding_of(const WeightForm& form, const Shape& shape, const QuantizationConfig& config) {
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  Encoding encoding = form.encoding_of(element_count(shape) / (rows * columns), rows, columns);
  if (encoding.scale_type != DType::kFloat8E4M3) return encoding;
  // Tensor scale with which scales of weights up to 448 * 6 / 2^14 = 0.16 fit float8_e4m3fn.
  constexpr float kTensorScale = 0x1p14F;
  if (config.float4_names == Float4Names::kModelOpt)
    encoding.tensor_scale.factor = 1 / kTensorScale;
  else
    encoding.tensor_scale.divisor = kTensorScale;
  return encoding;
}

/// Codes and scales of 4-bit floating-point weights, with the names that `config` uses.
std::vector<StoredTensor> float4_parts(const std::string& name, Shape codes, const Shape& grid,
                                       const Encoding& encoding, const QuantizationConfig& config) {
  if (config.float4_names == Float4Names::kBlocks) {
    codes.back() /= kMxfp4Group;
    codes.push_back(kMxfp4Group / kCodesOfByte);
    return {{name + "_blocks", DType::kUInt8, codes, StoredPart::kCodes},
            {name + "_scales", encoding.scale_type, grid, StoredPart::kScales}};
  }
  const bool is_packed = config.float4_names == Float4Names::kPacked;
  codes.back() /= kCodesOfByte;
  std::vector<StoredTensor> parts{
      {name + (is_packed ? "_packed" : ""), DType::kUInt8, codes, StoredPart::kCodes},
      {name + "_scale", encoding.scale_type, grid, StoredPart::kScales}};
  if (encoding.scale_type == DType::kFloat8E4M3)
    parts.push_back(
        {name + (is_packed ? "_global_scale" : "_scale_2"), DType::kFloat32, {1}, StoredPart::kTensorScale});
  return parts;
}

/// Codes, scales and other tensors of a weight, as they are published.
std::vector<StoredTensor> parts_of(const std::string& name, const Shape& shape, const Encoding& encoding,
                                   const QuantizationConfig& config) {
  Shape grid = shape, codes = shape;
  grid[grid.size() - 2] = encoding.grid_rows();
  grid.back() = encoding.grid_columns();
  const bool is_inverse = encoding.block_rows > 1 || config.has_inverse_scales;
  switch (encoding.codes) {
    case Codes::kFloat8E4M3:
      return {
          {name, DType::kFloat8E4M3, shape, StoredPart::kCodes},
          {name + (is_inverse ? "_scale_inv" : "_scale"), encoding.scale_type, grid, StoredPart::kScales}};
    case Codes::kInt4:
      codes.back() /= kCodesOfWord;
      return {{name + "_packed", DType::kInt32, codes, StoredPart::kCodes},
              {name + "_scale", encoding.scale_type, grid, StoredPart::kScales},
              {name + "_shape", DType::kInt32, {std::ssize(shape)}, StoredPart::kShape}};
    case Codes::kFloat4E2M1:
      return float4_parts(name, shape, grid, encoding, config);
    case Codes::kBFloat16:
    case Codes::kInt8:
    case Codes::kNormalFloat4:  // in memory alone
      break;
  }
  return {};
}

}  // namespace

StoredForm stored_form(const PublishedTensor& published, const KeyMap& keys,
                       const std::optional<QuantizationConfig>& config) {
  const TensorInfo& info = keys.manifest()[published.target.tensor()];
  StoredForm form{std::get<KeyTarget>(keys.resolve(published.name, /*quantised=*/true)), {}, {}};
  const std::optional<WeightForm> stored = form_of(published.name, form.target.shape, info, config);
  if (!stored)
    return {
        published.target, {}, {{published.name, info.dtype, published.target.shape, StoredPart::kValues}}};
  form.encoding = encoding_of(*stored, form.target.shape, *config);
  form.tensors = parts_of(published.name, form.target.shape, *form.encoding, *config);
  return form;
}

}  // namespace sluice
