#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "model/architecture.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "process/console.hpp"
#include "weights/checkpoint_index.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;
namespace {

struct InspectArguments {
  std::filesystem::path model;  ///< model directory, or its config.json
  bool json = false;
};

using nlohmann::json;

/// Adds a tensor to the numbers of its kind: `tensors`, and `what`, of which it has `count`.
void add_tensor(json& kind, const char* what, std::int64_t count) {
  if (kind.is_null()) kind = {{"tensors", 0}, {what, 0}};
  kind["tensors"] = kind["tensors"].get<std::int64_t>() + 1;
  kind[what] = kind[what].get<std::int64_t>() + count;
}

/// Files of weights by their headers, and their tensors by element type, or by the form of quantised weights.
json files_of(const CheckpointIndex& index) {
  json files{{"count", index.files.size()}, {"tensors", index.entries.size()}, {"dtypes", json::object()}};
  std::int64_t bytes = 0;
  for (const CheckpointEntry& entry : index.entries) {
    add_tensor(files["dtypes"][index.form_of(entry)], "elements", element_count(entry.shape));
    bytes += index.stored_bytes(entry);
  }
  files["bytes"] = bytes;
  return files;
}

/// What a model consists of, by its config.json and, if there are weights, the headers of their files.
json inspect(const ModelDescription& model, const fs::path& directory) {
  const ModelConfig& config = model.config;
  json out{{"model_type", config.model_type},
           {"parameters", model.manifest.parameter_count()},
           {"active_parameters", active_parameters(model)},
           {"tensors", model.manifest.checkpoint_tensors().size()},
           {"dtype", name_of(config.published_dtype)},
           {"bytes", model.manifest.parameter_count() * size_of(config.published_dtype)},
           {"experts", config.experts},
           {"experts_per_token", config.experts_per_token},
           {"tied_embeddings", config.tie_word_embeddings},
           {"structure_hash", model.manifest.structure_hash().hex()},
           {"unknown_keys", config.unknown_keys}};
  for (const LayerBlock& block : layer_blocks())
    out["layers"][std::string(block.name)] = block.count_in(config);
  for (const int index : model.manifest.checkpoint_tensors()) {
    const TensorInfo& tensor = model.manifest[index];
    add_tensor(out["roles"][std::string(name_of(tensor.role))], "parameters",
               is_parameter(tensor.kind) ? tensor.element_count() : 0);
  }
  if (!holds_weights(directory)) return out;
  const CheckpointIndex index = read_checkpoint_index(directory);
  require_listed_tensors(index);
  out["files"] = files_of(index);
  return out;
}

/// Text that counts the layers with each kind of token mixer, or with each kind of MLP.
std::string layer_counts(const ModelConfig& config, bool mixing_tokens) {
  std::vector<std::string> counts;
  for (const LayerBlock& block : layer_blocks())
    if (block.mixes_tokens() == mixing_tokens)
      counts.push_back(fmt::format("{} {}", block.count_in(config), block.summary));
  return fmt::format("{}", fmt::join(counts, ", "));
}

void print_model(const ModelConfig& config, const json& model) {
  console::line("model      {}, {} in {}", config.model_type,
                format_bytes(model["bytes"].get<std::int64_t>()), name_of(config.published_dtype));
  console::line("parameters {}, {} of them active for a token", model["parameters"].dump(),
                model["active_parameters"].dump());
  console::line("layers     {}: {}; {}", config.layer_count(), layer_counts(config, /*mixing_tokens=*/true),
                layer_counts(config, /*mixing_tokens=*/false));
  if (config.experts > 0)
    console::line("experts    {} a layer, {} for each token{}", config.experts, config.experts_per_token,
                  config.shared_expert_intermediate_size > 0 ? ", and a shared one" : "");
  console::line("structure  {}", model["structure_hash"].get<std::string>());
  if (!config.unknown_keys.empty())
    console::line("unknown    keys of config.json: {}", fmt::join(config.unknown_keys, ", "));
}

void print_roles(const json& model) {
  std::vector<std::vector<std::string>> rows{{"", "tensors", "parameters"}};
  for (const auto& [role, kind] : model["roles"].items())
    rows.push_back({role, kind["tensors"].dump(), kind["parameters"].dump()});
  rows.push_back({"all", model["tensors"].dump(), model["parameters"].dump()});
  console::write_line(console::table(rows));
}

void print_files(const json& model) {
  if (!model.contains("files")) return console::line("weights    none here: this is from config.json alone");
  const json& files = model["files"];
  console::line("weights    {}, {} in {}", counted(files["tensors"].get<std::int64_t>(), "tensor"),
                format_bytes(files["bytes"].get<std::int64_t>()),
                counted(files["count"].get<std::int64_t>(), "file"));
  for (const auto& [form, kind] : files["dtypes"].items())
    console::line("           {}: {}, {}", form, counted(kind["tensors"].get<std::int64_t>(), "tensor"),
                  counted(kind["elements"].get<std::int64_t>(), "element"));
}

/// Directory of a model; a config.json stands for its directory.
fs::path directory_of(const fs::path& model) {
  if (!fs::is_regular_file(model)) return model;
  if (model.filename() != "config.json")
    fail({ExitCode::kUsage, "model.not_a_model"}, "{} is neither a model directory nor its config.json",
         model.string());
  return model.has_parent_path() ? model.parent_path() : fs::path(".");
}

/// Describes a model from config.json and, if there are weights, the headers of their files.
int inspect_command(const InspectArguments& arguments) {
  const fs::path directory = directory_of(arguments.model);
  const ModelDescription described = describe_published_model(directory);
  const json model = inspect(described, directory);
  if (arguments.json) {
    print_json(model);
    return 0;
  }
  print_model(described.config, model);
  print_roles(model);
  print_files(model);
  return 0;
}

}  // namespace

void add_inspect(CommandLine& line) {
  const auto [command, arguments] = add_command<InspectArguments>(
      line, "inspect", "Parameters, tensors, layers and bytes of a model", inspect_command);
  command.add_option("model_dir", arguments.model, "Hugging Face directory, or a config.json")->required();
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace sluice
