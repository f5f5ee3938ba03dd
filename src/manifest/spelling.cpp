#include "manifest/spelling.hpp"

#include <array>
#include <utility>

namespace sluice {
namespace {

// A router's name that begins as another's comes first.
constexpr std::array kPublishedExperts{kMixtralExperts, kHunyuanExperts, kErnieExperts,    kHy3Experts,
                                       kBailingExperts, kExaoneExperts,  kLagunaExperts,   kLfm2Experts,
                                       kGraniteExperts, kGraniteTree,    kNemotronExperts, kStepExperts};

std::string between(std::string_view before, std::string_view text, std::string_view after) {
  return std::string(before).append(text).append(after);
}

std::string without_wrapper(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPrefixes{
      {{"model.language_model.", "model."},
       {"backbone.", "model."},
       {"language_model.model.", "model."},
       {"language_model.lm_head.", "lm_head."}}};
  for (const auto& [prefix, plain] : kPrefixes)
    if (name.starts_with(prefix)) return std::string(plain).append(name.substr(prefix.size()));
  return std::string(name);
}

/// Changes the spelling of a name. A name that is no part of a mixture of experts in the spelling `from`
/// stays as it is.
std::string respelled(std::string name, const ExpertSpelling& from, const ExpertSpelling& to) {
  const std::string block = between(".", from.block, ".");
  const std::size_t at = name.find(block);
  if (at == std::string::npos) return name;
  const std::string before = between(std::string_view(name).substr(0, at), ".", to.block) + ".";
  const std::string_view rest = std::string_view(name).substr(at + block.size());
  for (const auto tensor :
       {&ExpertSpelling::bias, &ExpertSpelling::fused_gate_up, &ExpertSpelling::fused_down,
        &ExpertSpelling::fused_gate, &ExpertSpelling::fused_up})
    if (rest == from.*tensor) return before + std::string(to.*tensor);
  for (const auto module : {&ExpertSpelling::router, &ExpertSpelling::shared})
    if (const std::string start = between(from.*module, ".", ""); rest.starts_with(start))
      return before + between(to.*module, ".", rest.substr(start.size()));
  if (!rest.starts_with("experts.")) return name;  // the tensor belongs to a dense layer
  name.replace(0, at + block.size(), before);
  for (const auto projection : {&ExpertSpelling::gate, &ExpertSpelling::up, &ExpertSpelling::down}) {
    const std::string ending = between(".", from.*projection, ".weight");
    if (!name.ends_with(ending)) continue;
    name.replace(name.size() - ending.size(), ending.size(), between(".", to.*projection, ".weight"));
    break;
  }
  return name;
}

/// A dense layer's name, which transformers 5.24 saves for Kimi Linear as if it were part of a mixture, as published.
std::string without_mixture(std::string name) {
  constexpr std::string_view kMixture = ".block_sparse_moe.";
  for (const std::string_view projection : {"gate_proj", "up_proj", "down_proj"})
    if (const std::string ending = between(kMixture, projection, ".weight"); name.ends_with(ending))
      return name.replace(name.size() - ending.size(), kMixture.size(), ".mlp.");
  return name;
}

}  // namespace

std::string plain_name(std::string_view checkpoint_name) {
  std::string name = without_mixture(without_wrapper(checkpoint_name));
  for (const ExpertSpelling& published : kPublishedExperts)
    name = respelled(std::move(name), published, kPlainExperts);
  return name;
}

std::string spelled(std::string plain_name, const ExpertSpelling& experts) {
  return respelled(std::move(plain_name), kPlainExperts, experts);
}

}  // namespace sluice
