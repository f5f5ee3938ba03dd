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

#include <map>
#include <optional>
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

/// Number and bytes of tensors of one kind.
struct Share {
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
};

/// All results of an inspection.
struct Inspection {
  ModelDescription model;
  std::map<std::string_view, Share> roles;
  std::int64_t active_parameters = 0;  ///< active parameters per token
  std::optional<CheckpointIndex> files;
  /// Bytes keyed by element type, or by the form of quantised weights.
  std::map<std::string, Share> file_forms;
  std::int64_t file_bytes = 0;
};

Inspection inspect(const fs::path& directory) {
  Inspection out{describe_published_model(directory), {}, 0, {}, {}, 0};
  for (const int index : out.model.manifest.checkpoint_tensors()) {
    const TensorInfo& tensor = out.model.manifest[index];
    Share& share = out.roles[name_of(tensor.role)];
    ++share.tensors;
    if (tensor.kind == TensorKind::kParameter) share.parameters += tensor.element_count();
  }
  out.active_parameters = active_parameters(out.model);
  if (!holds_weights(directory)) return out;
  out.files = read_checkpoint_index(directory);
  require_listed_tensors(*out.files);
  for (const CheckpointEntry& entry : out.files->entries) {
    Share& share = out.file_forms[out.files->form_of(entry)];
    ++share.tensors;
    share.parameters += element_count(entry.shape);
    out.file_bytes += out.files->stored_bytes(entry);
  }
  return out;
}

std::int64_t published_bytes(const ModelDescription& model) {
  return model.manifest.parameter_count() * size_of(model.config.published_dtype);
}

json as_json(const Inspection& i) {
  const ModelConfig& config = i.model.config;
  json out{{"model_type", config.model_type},
           {"parameters", i.model.manifest.parameter_count()},
           {"active_parameters", i.active_parameters},
           {"tensors", i.model.manifest.checkpoint_tensors().size()},
           {"dtype", name_of(config.published_dtype)},
           {"bytes", published_bytes(i.model)},
           {"experts", config.experts},
           {"experts_per_token", config.experts_per_token},
           {"tied_embeddings", config.tie_word_embeddings},
           {"structure_hash", i.model.manifest.structure_hash().hex()},
           {"unknown_keys", config.unknown_keys}};
  for (const LayerBlock& block : layer_blocks())
    out["layers"][std::string(block.name)] = block.count_in(config);
  for (const auto& [role, share] : i.roles)
    out["roles"][std::string(role)] = {{"tensors", share.tensors}, {"parameters", share.parameters}};
  if (!i.files) return out;
  out["files"] = {
      {"count", i.files->files.size()}, {"tensors", i.files->entries.size()}, {"bytes", i.file_bytes}};
  for (const auto& [form, share] : i.file_forms)
    out["files"]["dtypes"][form] = {{"tensors", share.tensors}, {"elements", share.parameters}};
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

void print_model(const Inspection& i) {
  const ModelConfig& config = i.model.config;
  console::line("model      {}, {} in {}", config.model_type, format_bytes(published_bytes(i.model)),
                name_of(config.published_dtype));
  console::line("parameters {}, {} of them active for a token", i.model.manifest.parameter_count(),
                i.active_parameters);
  console::line("layers     {}: {}; {}", config.layer_count(), layer_counts(config, /*mixing_tokens=*/true),
                layer_counts(config, /*mixing_tokens=*/false));
  if (config.experts > 0)
    console::line("experts    {} a layer, {} for each token{}", config.experts, config.experts_per_token,
                  config.shared_expert_intermediate_size > 0 ? ", and a shared one" : "");
  console::line("structure  {}", i.model.manifest.structure_hash().hex());
  if (!config.unknown_keys.empty())
    console::line("unknown    keys of config.json: {}", fmt::join(config.unknown_keys, ", "));
}

void print_roles(const Inspection& i) {
  std::vector<std::vector<std::string>> rows{{"", "tensors", "parameters"}};
  for (const auto& [role, share] : i.roles)
    rows.push_back({std::string(role), fmt::to_string(share.tensors), fmt::to_string(share.parameters)});
  rows.push_back({"all", fmt::to_string(i.model.manifest.checkpoint_tensors().size()),
                  fmt::to_string(i.model.manifest.parameter_count())});
  console::write_line(console::table(rows));
}

void print_files(const Inspection& i) {
  if (!i.files) return console::line("weights    none here: this is from config.json alone");
  console::line("weights    {}, {} in {}", counted(std::ssize(i.files->entries), "tensor"),
                format_bytes(i.file_bytes), counted(std::ssize(i.files->files), "file"));
  for (const auto& [form, share] : i.file_forms)
    console::line("           {}: {}, {}", form, counted(share.tensors, "tensor"),
                  counted(share.parameters, "element"));
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
  const Inspection inspection = inspect(directory_of(arguments.model));
  if (arguments.json) {
    print_json(as_json(inspection));
    return 0;
  }
  print_model(inspection);
  print_roles(inspection);
  print_files(inspection);
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
