// What a key of config.json means that is null, absent or empty: what transformers computes with it, by
// tests/fixtures/config_keys.json, which make_config_keys.py there writes; or a refusal that names the key.

#include "comm/root_exchange.hpp"
#include "data/share_of.hpp"
#include "generate/loaded_model.hpp"
#include "generate/reference.hpp"
#include "io/hdf5.hpp"
#include "model/agreed_settings.hpp"
#include "support/mpi_test.hpp"
#include "support/source_folder.hpp"
#include "train/evaluator.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;

constexpr double kTolerance = 2e-5;

/// Keys, or keys in a form or of a model, of which the reading here is not transformers', and why.
const std::map<std::string, std::string> kOnlyHere{
    {"llama_4_scaling_beta: absent", "queries do not grow; transformers' forward pass fails"},
    {"full_attention.truncate: null",
     "transformers looks for it beside the kinds of layers, where no file has it"},
    {"full_attention.original_max_position_embeddings: absent",
     "the longest sequence, as with one embedding for all layers; transformers fails"},
    {"num_shared_experts", "another spelling of n_shared_experts, which counts first"},
    {R"(num_local_experts: "")", "another spelling of num_experts, which counts first"},
    {"num_local_experts: []", "another spelling"},
    {"num_local_experts: {}", "another spelling"},
    {"index_head_dim", "shape of an indexer, which is carried along and not computed"},
    {"index_n_heads", "shape of an indexer"},
    {"minimax_m3-tiny: layer_types", "layers that have an indexer"},
    {"step3p5-tiny: num_nextn_predict_layers",
     "lists by layer, which it makes too long, are refused by their names"},
    {"step3p5-tiny: rope_scaling.original_max_position_embeddings",
     "the longest sequence, as with one embedding for all layers; transformers fails"},
    {"indexer_types", "layers that have an indexer of their own"},
};

const json& cases() {
  static const json all = json::parse(std::ifstream(fixture_folder() / "config_keys.json")).at("cases");
  return all;
}

std::vector<std::string> models_with_keys() {
  std::set<std::string> names;
  for (const json& one : cases()) names.insert(one.at("model"));
  return {names.begin(), names.end()};
}

/// Path of a key in a config: "key", or "table.key".
json::json_pointer pointer_to(std::string key) {
  std::ranges::replace(key, '.', '/');
  return json::json_pointer("/" + key);
}

/// The config with a key in a form of config_keys.json.
json with_form(json config, const std::string& key, const std::string& form) {
  const json::json_pointer place = pointer_to(key);
  if (form == "absent")
    config.at(place.parent_pointer()).erase(place.back());
  else
    config[place] = json::parse(form);
  return config;
}

/// Name, owner of the storage and shape of each tensor of checkpoints.
std::vector<std::tuple<std::string, std::string, std::vector<std::int64_t>>> tensors_of(
    const ParameterManifest& manifest) {
  std::vector<std::tuple<std::string, std::string, std::vector<std::int64_t>>> out;
  for (const TensorInfo& tensor : manifest.tensors())
    if (tensor.kind != TensorKind::kComputedBuffer)
      out.emplace_back(tensor.name, tensor.tied_to, tensor.shape);
  return out;
}

/// What a config means here.
struct Reading {
  std::string refusal;   ///< what an error says; empty if the config is read
  bool asks_key = true;  ///< whether anything asks for the key
  bool fits = false;     ///< whether its tensors are those of the weights
  ModelConfig config{};
  std::string settings{};  ///< all that ranks would agree on, which decides the loss of the same weights
};

/// Reads a config in which `key` has been changed.
Reading read(const json& changed, const std::string& key, const ParameterManifest& weights,
             std::int64_t length) {
  Reading out;
  const ConfigReader reader = ConfigReader::parse(changed.dump(), "config.json");
  const auto& family = *std::ranges::find(architectures(), changed.at("model_type").get<std::string>(),
                                          &Architecture::model_type);
  try {
    out.config = family.read_config(reader.with(Nulls::kRefused));
    const ParameterManifest manifest = family.describe(out.config, DType::kFloat32);
    out.fits = tensors_of(manifest) == tensors_of(weights);
    for (const Setting& setting : agreed_settings(out.config))
      out.settings += setting.key + "=" + setting.value + ";";
    for (const AttentionKind kind : {AttentionKind::kFull, AttentionKind::kSliding})
      out.settings += "rotary dimensions=" +
                      std::to_string(out.config.rotary_of(kind).dim);  // by shapes, ranks agree on them
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadData) << error.what();
    out.refusal = error.what();
  }
  // Jobs refuse longer sequences by this key.
  const SequenceLimit& limit = out.config.sequence_limit;
  if (limit.tokens > 0 && limit.tokens < length) out.refusal = limit.key;
  const std::size_t dot = key.find('.');
  const auto table =
      dot == std::string::npos ? reader : reader.object({key.substr(0, dot).c_str()}).value_or(reader);
  out.asks_key = !std::ranges::count(table.unasked_keys(), key.substr(dot + 1));
  return out;
}

/// A model of tests/fixtures on the ranks, and the losses of its first sequence under other settings.
class ConfigKeysTest : public testing::TestWithParam<std::string> {
 protected:
  ConfigKeysTest() {
    const hdf5::File file = hdf5::File::open(directory() / "reference.h5");
    const std::vector<std::int64_t> shape = file.dataset("tokens").shape();
    batch_.length = shape.back() - 1;
    batch_.ids = file.dataset("tokens").read<std::int64_t>();
    batch_.ids.resize(static_cast<std::size_t>(shape.back()));
    batch_.global_targets = count_targets(batch_);
  }
  [[nodiscard]] static std::filesystem::path directory() { return fixture_folder() / GetParam(); }
  [[nodiscard]] const ParameterManifest& manifest() const { return model_.description.manifest; }

  [[nodiscard]] Reading read(const json& changed, const std::string& key) const {
    return sluice::read(changed, key, manifest(), batch_.length);
  }

  /// Mean loss on rank 0. Collective; equal settings are computed once.
  double loss(const Reading& reading) {
    const auto [known, is_new] = losses_.try_emplace(reading.settings);
    if (!is_new) return known->second;
    Communicator& comm = test::test_world();
    StageBinder binder(comm, reading.config, manifest(), model_.weights);
    Evaluator evaluator(comm, reading.config, binder, batch_.length, 1);
    const std::vector<double> own = evaluator.losses(test::share_of(batch_, comm));
    const std::vector<double> all = gather_to_root(comm, std::span(own));
    return known->second = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(batch_.length);
  }

  /// `usual` is the loss of the case.
  void expect_answer(const json& answer, const Reading& reading, double usual) {
    if (!reading.asks_key) {
      EXPECT_TRUE(answer == "same" || answer == "refused") << "read by transformers alone: " << answer;
    } else if (answer == "refused") {
      ADD_FAILURE() << "read, though transformers fails";
    } else if (answer == "other tensors" || !reading.fits) {
      EXPECT_TRUE(answer == "other tensors" && !reading.fits) << answer;
    } else if (const double found = loss(reading); test::test_world().rank() == 0) {
      EXPECT_NEAR(found, answer == "same" ? usual : answer.get<double>(), kTolerance);
    }
  }

  /// `key` is a key, or "table.key".
  static void expect_refusal_of(const std::string& key, const std::string& form, const std::string& refusal) {
    const std::size_t dot = key.find('.');
    const bool names_key = refusal.find(key.substr(dot + 1)) != std::string::npos;
    const bool names_table =
        dot != std::string::npos && refusal.find(key.substr(0, dot)) != std::string::npos;
    const bool names_spelling = form == "absent" && refusal.find("is missing") != std::string::npos;
    EXPECT_TRUE(names_key || names_table || names_spelling) << refusal;
  }

 private:
  test::LoadedModel model_{test::test_world(), directory(), test::test_world().size()};
  Batch batch_{1, 0};
  std::map<std::string, double> losses_;
};

TEST_P(ConfigKeysTest, mean_what_transformers_makes_of_them_or_are_refused) {
  const json published = json::parse(std::ifstream(directory() / "config.json"));
  for (const auto& [name, one] : cases().items()) {
    if (one.at("model") != GetParam()) continue;
    json config = published;
    config.merge_patch(one.at("config"));
    for (const auto& [key, forms] : one.at("keys").items())
      for (const auto& [form, answer] : forms.items()) {
        if (kOnlyHere.contains(key) || kOnlyHere.contains(GetParam() + ": " + key) ||
            kOnlyHere.contains(key.substr(key.find('.') + 1) + ": " + form))
          continue;
        // Several ranks are there for the numbers.
        if (test::test_world().size() > 1 && !answer.is_number()) continue;
        SCOPED_TRACE(testing::Message() << name << ": " << key << ": " << form);
        const Reading reading = read(with_form(config, key, form), key);
        if (reading.refusal.empty())
          expect_answer(answer, reading, one.at("loss"));
        else
          expect_refusal_of(key, form, reading.refusal);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ConfigKeysTest, testing::ValuesIn(models_with_keys()), test::name_of_model);

}  // namespace
}  // namespace sluice
