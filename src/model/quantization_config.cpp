#include "model/quantization_config.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json_object.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "quantization_config";
constexpr const char* kTextConfig = "text_config";
constexpr std::int64_t kLargestConfig = 100'000'000;

constexpr std::string_view kInstead =
    "weights stored by another method can't be trained here; take the checkpoint that they were made from, "
    "as it is published in bfloat16, FP8, INT4, MXFP4 or NVFP4, or turn them back into bfloat16 and leave this key "
    "out";

void announce(QuantizationConfig& out, Codes codes) {
  if (!out.announces(codes)) out.codes.push_back(codes);
}

void read_block(const ConfigReader& config, const char* key, QuantizationConfig& out) {
  constexpr std::int64_t kLargest = 1 << 20;
  if (!config.has(key)) return;
  const std::vector<std::int64_t> block = config.integers({key});
  if (block.size() != 2 || std::ranges::min(block) < 1 || std::ranges::max(block) > kLargest)
    config.refuse(key, fmt::format("two integers from 1 to {}, the rows and columns of a block", kLargest));
  out.block = {block[0], block[1]};
}

/// Reads the list of plain modules at transformers' or vLLM's key for it.
void read_plain_modules(const ConfigReader& config, const char* key, PlainModules::Rule rule,
                        QuantizationConfig& out) {
  if (config.has(key)) out.plain = {config.texts({key}), rule, fmt::format("{}: {}", config.name(), key)};
}

/// Reads `quant_method` "fp8", as DeepSeek publishes it and transformers writes it.
void read_float8(const ConfigReader& config, QuantizationConfig& out) {
  if (config.text({"fmt"}, "e4m3") != "e4m3")
    config.refuse("fmt", fmt::format("'e4m3', the only form of FP8 weights that is read: {}", kInstead));
  announce(out, Codes::kFloat8E4M3);
  read_block(config, "weight_block_size", out);
  for (const char* key : {"ignored_layers", "modules_to_not_convert"})
    read_plain_modules(config, key, PlainModules::Rule::kParts, out);
}

void read_weights(const ConfigReader& weights, QuantizationConfig& out) {
  const std::string type = weights.text({"type"}, "int");
  const std::int64_t bits = weights.integer({"num_bits"}, 8);
  if (type == "float" && bits == 8) {
    announce(out, Codes::kFloat8E4M3);
    read_block(weights, "block_structure", out);
    return;
  }
  if (bits != 4 || (type != "int" && type != "float"))
    weights.refuse("num_bits", fmt::format("4, or 8 with type 'float', not with '{}': {}", type, kInstead));
  if (!weights.boolean({"symmetric"}, true))
    weights.refuse("symmetric", fmt::format("true, as zero points are not read: {}", kInstead));
  if (weights.has("actorder"))
    weights.refuse("actorder",
                   fmt::format("null, as groups in another order (g_idx) are not read: {}", kInstead));
  announce(out, type == "int" ? Codes::kInt4 : Codes::kFloat4E2M1);
  if (type == "float") {
    out.float4_names = Float4Names::kPacked;
    out.has_nvfp4 = weights.text({"strategy"}, "tensor_group") == "tensor_group";
  }
  if (weights.has("group_size") && weights.integer({"group_size"}, {}, -1) > 0)
    out.group = weights.integer({"group_size"});
}

void read_group(const ConfigReader& group, QuantizationConfig& out) {
  if (const auto activations = group.object({"input_activations"}))
    if (activations->text({"type"}, "int") == "int")
      activations->refuse(
          "type",
          fmt::format("'float' or no input_activations, as int8 activations are not computed with: {}",
                      kInstead));
  if (const auto weights = group.object({"weights"})) read_weights(*weights, out);
}

/// Reads `quant_method` "compressed-tensors".
void read_compressed(const ConfigReader& config, QuantizationConfig& out) {
  const std::string format = config.text({"format"}, "pack-quantized");
  for (const std::string_view known : {"float-quantized", "naive-quantized", "pack-quantized",
                                       "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"})
    if (format == known) {
      if (const auto sparsity = config.object({"sparsity_config"}); sparsity && !sparsity->is_empty())
        if (sparsity->text({"format"}, "dense") != "dense")
          sparsity->refuse("format", fmt::format("'dense', as sparse weights are not read: {}", kInstead));
      if (const auto groups = config.object({"config_groups"}))
        for (const ConfigReader& group : groups->objects()) read_group(group, out);
      read_plain_modules(config, "ignore", PlainModules::Rule::kNames, out);
      if (out.codes.empty()) config.refuse("config_groups", "a group that says how weights are stored");
      return;
    }
  config.refuse("format", fmt::format("'float-quantized' (FP8), 'pack-quantized' (INT4), "
                                      "'nvfp4-pack-quantized' or 'mxfp4-pack-quantized': {}",
                                      kInstead));
}

/// Reads `quant_method` "modelopt": NVFP4 in groups of 16, or FP8 with one scale per tensor.
void read_modelopt(const ConfigReader& config, QuantizationConfig& out) {
  const std::string algorithm = config.text({"quant_algo"});
  if (algorithm != "NVFP4" && algorithm != "FP8")
    config.refuse("quant_algo", fmt::format("'NVFP4' or 'FP8': {}", kInstead));
  announce(out, algorithm == "FP8" ? Codes::kFloat8E4M3 : Codes::kFloat4E2M1);
  out.float4_names = Float4Names::kModelOpt;
  out.has_nvfp4 = algorithm == "NVFP4";
  for (const char* key : {"ignore", "exclude_modules"})
    read_plain_modules(config, key, PlainModules::Rule::kGlobs, out);
}

/// A text as a JSON object; nothing if it is none.
std::optional<nlohmann::ordered_json> parsed(const std::string& text) {
  try {
    return parse_json_object<nlohmann::ordered_json>(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool QuantizationConfig::announces(Codes form) const { return std::ranges::find(codes, form) != codes.end(); }

std::int64_t QuantizationConfig::group_of(Codes form) const {
  constexpr std::int64_t kUsual = 32;
  if (form == Codes::kFloat4E2M1) return has_nvfp4 ? kNvfp4Group : kMxfp4Group;
  return group.value_or(kUsual);
}

Encoding QuantizationConfig::encoding_of(Codes form, std::int64_t matrices, std::int64_t rows,
                                         std::int64_t columns) const {
  Encoding encoding{.codes = form, .rows = rows, .columns = columns, .block_rows = 1};
  if (form == Codes::kFloat8E4M3) {
    encoding.scale_type = DType::kFloat32;
    encoding.block_rows = block ? block->front() : 1;
    encoding.block_columns = block ? block->back() : columns;
  } else {
    const DType float4_scales = has_nvfp4 ? DType::kFloat8E4M3 : DType::kUInt8;
    encoding.scale_type = form == Codes::kInt4 ? DType::kBFloat16 : float4_scales;
    encoding.block_columns = group_of(form);
  }
  encoding.scale_count = matrices * encoding.grid_rows() * encoding.grid_columns();
  return encoding;
}

std::optional<QuantizationConfig> read_quantization(const ConfigReader& config) {
  const std::optional<ConfigReader> quantization = config.object({kKey});
  if (!quantization) return std::nullopt;
  QuantizationConfig out;
  out.name = quantization->name();
  const std::string method = quantization->has("quant_method") ? quantization->text({"quant_method"}) : "";
  if (method == "fp8")
    read_float8(*quantization, out);
  else if (method == "compressed-tensors")
    read_compressed(*quantization, out);
  else if (method == "modelopt")
    read_modelopt(*quantization, out);
  else if (method == "mxfp4") {
    announce(out, Codes::kFloat4E2M1);
    read_plain_modules(*quantization, "modules_to_not_convert", PlainModules::Rule::kParts, out);
  } else
    quantization->refuse(
        "quant_method",
        fmt::format("'fp8', 'compressed-tensors', 'modelopt', 'mxfp4' or no quantization_config: {}",
                    kInstead));
  return out;
}

std::optional<QuantizationConfig> read_quantization(const fs::path& directory) {
  std::error_code error;
  const fs::path path = directory / "config.json";
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const std::string text = read_text_file(path, kLargestConfig);
  if (!parsed(text)) return std::nullopt;
  const ConfigReader config = ConfigReader::parse(text, path.string());
  if (auto found = read_quantization(config)) return found;
  if (!config.has(kTextConfig)) return std::nullopt;
  const auto inner = config.object({kTextConfig});
  return inner ? read_quantization(*inner) : std::nullopt;
}

std::optional<std::string> without_quantization(const std::string& config_json) {
  std::optional<nlohmann::ordered_json> config = parsed(config_json);
  if (!config) return std::nullopt;
  std::size_t removed = config->erase(kKey);
  if (const auto inner = config->find(kTextConfig); inner != config->end() && inner->is_object())
    removed += inner->erase(kKey);
  if (removed == 0) return std::nullopt;
  return json_file_text(*std::move(config));
}

}  // namespace sluice
