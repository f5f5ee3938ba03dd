#include "manifest/manifest.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

namespace sluice {
namespace {

constexpr std::string_view kPlain = "model.";  // of all names but that of the head

std::string_view name_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFloat32Parameter:
      return "float32 parameter";
    case TensorKind::kPersistentBuffer:
      return "persistent buffer";
    case TensorKind::kComputedBuffer:
      return "computed buffer";
  }
  return "?";
}

bool is_stored(const TensorInfo& tensor) {
  return tensor.kind == TensorKind::kParameter && tensor.tied_to.empty();
}

bool is_whole(const TensorInfo& tensor) {
  return tensor.kind == TensorKind::kPersistentBuffer || tensor.kind == TensorKind::kFloat32Parameter;
}

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "embedding";
    case Role::kAttention:
      return "attention";
    case Role::kLinearAttention:
      return "linear_attention";
    case Role::kRouter:
      return "router";
    case Role::kExpert:
      return "expert";
    case Role::kSharedExpert:
      return "shared_expert";
    case Role::kDenseMlp:
      return "dense_mlp";
    case Role::kNorm:
      return "norm";
    case Role::kHead:
      return "head";
  }
  return "?";
}

std::int64_t element_count(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void ParameterManifest::add(TensorInfo tensor) {
  SLUICE_ASSERT(!find(tensor.name), "tensor {} is described twice", tensor.name);
  if (!tensor.tied_to.empty()) {
    const auto owner = find(tensor.tied_to);
    SLUICE_ASSERT(owner && (*this)[*owner].shape == tensor.shape, "tensor {} cannot be tied to {}",
                  tensor.name, tensor.tied_to);
  }
  index_.emplace(tensor.name, static_cast<int>(tensors_.size()));
  tensors_.push_back(std::move(tensor));
}

std::optional<int> ParameterManifest::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

void ParameterManifest::add_joined(std::string name, std::int64_t groups, std::span<const JoinedRows> parts,
                                   JoinedIn in) {
  JoinedTensor joined{std::move(name), {0}, {}, in};
  const TensorInfo* first = nullptr;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (const JoinedRows& part : parts) {
      const std::optional<int> tensor = find(part.tensor);
      SLUICE_ASSERT(tensor, "tensor {} is joined from {}, which the manifest does not have", joined.name,
                    part.tensor);
      const TensorInfo& info = (*this)[*tensor];
      if (first == nullptr) first = &info;
      SLUICE_ASSERT(
          (is_stored(info) || (is_whole(info) && parts.size() == 1)) && info.role == first->role &&
              info.layer == first->layer &&
              std::ranges::equal(std::span(info.shape).subspan(1), std::span(first->shape).subspan(1)) &&
              part.first + groups * part.rows <= info.shape.front(),
          "tensor {} cannot be joined from rows of {}", joined.name, info.name);
      const std::int64_t row = info.element_count() / info.shape.front();
      const TensorRange range{*tensor, (part.first + group * part.rows) * row, part.rows * row};
      joined.shape.front() += part.rows;
      if (!joined.ranges.empty() && joined.ranges.back().tensor == range.tensor &&
          joined.ranges.back().end() == range.begin)
        joined.ranges.back().count += range.count;
      else
        joined.ranges.push_back(range);
    }
  }
  SLUICE_ASSERT(first != nullptr, "tensor {} must be joined from at least one tensor", joined.name);
  joined.shape.insert(joined.shape.end(), first->shape.begin() + 1, first->shape.end());
  joined_index_.emplace(joined.name, joined_.size());
  for (const TensorRange& range : joined.ranges) joined_by_tensor_.emplace(range.tensor, joined_.size());
  joined_.push_back(std::move(joined));
}

const JoinedTensor* ParameterManifest::find_joined(std::string_view name) const {
  const auto found = joined_index_.find(std::string(name));
  return found == joined_index_.end() ? nullptr : &joined_[found->second];
}

const JoinedTensor* ParameterManifest::joined_with(int tensor) const {
  const auto found = joined_by_tensor_.find(tensor);
  return found == joined_by_tensor_.end() ? nullptr : &joined_[found->second];
}

const JoinedTensor* ParameterManifest::joined_in_tree(int tensor) const {
  const JoinedTensor* joined = joined_with(tensor);
  return joined == nullptr || joined->in != JoinedIn::kCheckpoints ? joined : nullptr;
}

bool ParameterManifest::has_foreign_part(ForeignPart part) const {
  return std::ranges::find(foreign_parts_, part) != foreign_parts_.end();
}

bool ParameterManifest::is_in_prediction_layer(std::string_view name) const {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  const char* const end = name.data() + name.size();
  std::int64_t layer = 0;
  const auto [dot, error] = std::from_chars(name.data() + kLayers.size(), end, layer);
  return error == std::errc{} && dot != end && *dot == '.' && layer >= prediction_layers_.begin &&
         layer < prediction_layers_.end;
}

std::string ParameterManifest::wrapped_name(std::string name) const {
  return name.starts_with(kPlain) ? name.replace(0, kPlain.size(), tree_prefix_) : tree_outer_ + name;
}

std::string ParameterManifest::published_name(std::string name) const {
  const bool is_inside = name.starts_with(kPlain);
  std::string published =
      is_inside ? name.replace(0, kPlain.size(), published_prefix_) : published_outer_ + name;
  return spelled(std::move(published), published_experts_);
}

std::string ParameterManifest::tree_name(std::string name) const {
  return spelled(std::move(name), tree_experts_);
}

void ParameterManifest::freeze(int index) {
  TensorInfo& tensor = tensors_[static_cast<std::size_t>(index)];
  tensor.frozen = true;
  if (!tensor.tied_to.empty()) freeze(*find(tensor.tied_to));
}

std::int64_t ParameterManifest::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorInfo& tensor : tensors_)
    if (is_parameter(tensor.kind) && tensor.tied_to.empty()) count += tensor.element_count();
  return count;
}

std::int64_t ParameterManifest::trained_parameter_count() const {
  std::int64_t count = 0;
  for (const TensorInfo& tensor : tensors_)
    if (is_parameter(tensor.kind) && tensor.tied_to.empty() && !tensor.frozen)
      count += tensor.element_count();
  return count;
}

template <class Holds>
std::vector<int> ParameterManifest::tensors_that(Holds holds) const {
  std::vector<int> found;
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i)
    if (holds((*this)[i])) found.push_back(i);
  return found;
}

std::vector<int> ParameterManifest::stored_tensors() const { return tensors_that(is_stored); }

std::vector<int> ParameterManifest::whole_tensors() const {
  std::vector<int> whole = tensors_that(is_whole);
  std::ranges::stable_sort(whole, {}, [&](int tensor) {
    const TensorInfo& info = (*this)[tensor];
    return std::pair(is_parameter(info.kind), !info.frozen);
  });
  return whole;
}

std::vector<int> ParameterManifest::checkpoint_tensors() const {
  return tensors_that([](const TensorInfo& tensor) {
    return (is_stored(tensor) && tensor.adapts.empty()) || is_whole(tensor);
  });
}

std::vector<int> ParameterManifest::trained_tensors() const {
  return tensors_that([](const TensorInfo& tensor) { return is_stored(tensor) && !tensor.frozen; });
}

std::string ParameterManifest::canonical_value(const TensorInfo& tensor) {
  std::string text =
      fmt::format("{} {} {} {} layer {}", shape_text(tensor.shape), sluice::name_of(tensor.dtype),
                  sluice::name_of(tensor.role), name_of(tensor.kind), tensor.layer);
  if (!tensor.tied_to.empty()) text += " tied to " + tensor.tied_to;
  if (tensor.frozen) text += " frozen";
  if (!tensor.adapts.empty()) text += fmt::format(" adapts {} times {}", tensor.adapts, tensor.scale);
  return text;
}

Digest ParameterManifest::structure_hash() const {
  std::string text;
  for (const TensorInfo& tensor : tensors_)
    text += fmt::format("{}: {}\n", tensor.name, canonical_value(tensor));
  return digest_of(text);
}

Digest ParameterManifest::model_hash() const {
  std::string text;
  for (const int tensor : checkpoint_tensors())
    text += fmt::format("{}: {}\n", (*this)[tensor].name, shape_text((*this)[tensor].shape));
  return digest_of(text);
}

}  // namespace sluice
