#include "train/optimizer.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/buffers/gradients.hpp"
#include "ops/buffers/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

std::vector<RandomStream> make_streams(const ParameterManifest& manifest, std::uint64_t seed) {
  std::vector<RandomStream> streams;
  for (const TensorInfo& tensor : manifest.tensors()) streams.emplace_back(seed, tensor.name);
  return streams;
}

std::vector<Range> unit_bytes(const OptimizerLayout& layout) {
  std::vector<Range> units;
  for (int unit = 0; unit < layout.units(); ++unit) units.push_back(layout.unit_bytes(unit));
  return units;
}

}  // namespace

Optimizer::Optimizer(const RankMesh& mesh, const ParameterManifest& manifest, ShardArena& weights,
                     const OptimizerSettings& settings)
    : mesh_(mesh),
      weights_(weights),
      settings_(settings),
      layout_(manifest, weights.plan(), weights.rank(), settings.mode(), weights.dtype()),
      state_(allocate(weights.memory(), layout_.bytes(), "optimizer state")),
      paged_state_(weights, state_.data(), unit_bytes(layout_)),
      streams_(make_streams(manifest, static_cast<std::uint64_t>(settings.seed))) {}

Optimizer::Matrices Optimizer::matrices_in(const GradientPart& gradient) const {
  const std::vector<MatrixState>& all = layout_.matrices(gradient.unit);
  const auto first = std::ranges::lower_bound(all, gradient.elements.begin, {}, &MatrixState::unit_begin);
  const auto end = std::ranges::lower_bound(all, gradient.elements.end, {}, &MatrixState::unit_begin);
  // Ranks that share the unit walk through the same list, whichever rank owns a matrix.
  if (weights_.plan().sharers(gradient.unit) > 1) return all;
  return {first, end};
}

std::vector<double> Optimizer::matrix_squares(const GradientPart& gradient) const {
  std::vector<double> squares;
  for (const MatrixState& matrix : matrices_in(gradient))
    squares.push_back(matrix.owned.count() == 0 ? 0
                                                : ops::sum_of_squares(gradient_of(gradient, matrix),
                                                                      gradient.dtype, matrix.owned.count()));
  return squares;
}

void Optimizer::sum_over_sharers(int unit, std::span<double> values) const {
  if (weights_.plan().sharers(unit) > 1) mesh_.sharers(weights_.plan(), unit).all_reduce_sum(values);
}

std::vector<double> Optimizer::scales(int unit, std::span<const double> matrix_squares, double scale,
                                      std::size_t count) const {
  if (!clips_matrices()) return std::vector<double>(count, scale);
  SLUICE_ASSERT(matrix_squares.size() == count, "found sums of squares for {} matrices, expected {}",
                matrix_squares.size(), count);
  std::vector<double> scales(matrix_squares.begin(), matrix_squares.end());
  sum_over_sharers(unit, scales);
  for (double& value : scales)
    value = std::min(1.0, settings_.max_grad_norm / (scale * std::sqrt(value) + 1e-6)) * scale;
  return scales;
}

void Optimizer::update(const GradientPart& gradient, std::span<const double> matrix_squares, double scale) {
  const trace::Span span(trace::Kind::kOperation, "update", gradient.unit);
  announce_update(gradient.unit);
  const Matrices matrices = matrices_in(gradient);
  const std::vector<double> factors = scales(gradient.unit, matrix_squares, scale, matrices.size());
  if (settings_.state == StateFormat::kFactored)
    update_factored(gradient, matrices, factors);
  else
    update_moments(gradient, matrices, factors);
}

void Optimizer::update_moments(const GradientPart& gradient, Matrices matrices,
                               std::span<const double> scales) {
  if (matrices.empty()) return;
  const DType weights = weights_type(matrices.front());
  std::vector<ops::UpdateRun> large, small;  // small tensors keep float32 state
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const MatrixState& matrix = matrices[i];
    if (matrix.owned.count() == 0) continue;
    const bool is_large = matrix.state == settings_.state && matrix.master == settings_.master;
    (is_large ? large : small)
        .push_back({.count = matrix.owned.count(),
                    .begin = matrix.owned.begin,
                    .draws = draws(matrix),
                    .weights = weights_of(matrix),
                    .master = array(matrix, StateArray::kMaster),
                    .first = array(matrix, StateArray::kFirst),
                    .second = array(matrix, StateArray::kSecond),
                    .first_scales = reinterpret_cast<float*>(array(matrix, StateArray::kFirstScales)),
                    .second_scales = reinterpret_cast<float*>(array(matrix, StateArray::kSecondScales)),
                    .gradient = gradient_of(gradient, matrix),
                    .gradient_scale = static_cast<float>(scales[i]),
                    .decays = matrix.decays});
  }
  for (const auto& [runs, master, state] :
       {std::tuple(&large, settings_.master, settings_.state),
        std::tuple(&small, MasterFormat::kFloat32, StateFormat::kFloat32)})
    ops::update_moments(*runs, {weights, gradient.dtype, master, state}, moment_step());
}

/// Constants of this step for an optimizer that keeps moments of each element.
ops::MomentStep Optimizer::moment_step() const {
  const double beta1 = settings_.betas[0], beta2 = settings_.betas[1];
  if (settings_.kind == OptimizerKind::kLion)
    return ops::LionStep{rate_, beta1, beta2, settings_.weight_decay};
  const auto t = static_cast<double>(step_);
  return ops::AdamWStep{.lr = rate_,
                        .beta1 = beta1,
                        .beta2 = beta2,
                        .eps = settings_.eps,
                        .weight_decay = settings_.weight_decay,
                        .bias_correction1 = 1 - std::pow(beta1, t),
                        .bias_correction2 = 1 - std::pow(beta2, t)};
}

/// First byte of the gradients that this rank owns of a matrix.
const std::byte* Optimizer::gradient_of(const GradientPart& gradient, const MatrixState& matrix) {
  return gradient.data + (matrix.unit_begin - gradient.elements.begin) * size_of(gradient.dtype);
}

std::uint64_t Optimizer::draws(const MatrixState& matrix) const {
  constexpr std::uint64_t kMaxExperts = 1 << 20;
  return streams_[static_cast<std::size_t>(matrix.tensor)].bits(
      static_cast<std::uint64_t>(step_) * kMaxExperts + static_cast<std::uint64_t>(matrix.expert + 1));
}

std::byte* Optimizer::array(const MatrixState& matrix, StateArray array) const {
  const std::int64_t offset = matrix.offset(array);
  return offset < 0 ? nullptr : state_.data() + offset;
}

std::byte* Optimizer::weights_of(const MatrixState& matrix) const {
  if (matrix.is_whole) return reinterpret_cast<std::byte*>(weights_.buffers() + matrix.arena_begin);
  return weights_.data() + matrix.arena_begin * size_of(weights_.dtype());
}

const ShardPlan& Optimizer::Master::plan() const { return optimizer_.weights_.plan(); }

int Optimizer::Master::rank() const { return optimizer_.weights_.rank(); }

DType Optimizer::Master::dtype() const {
  return optimizer_.settings_.master == MasterFormat::kNone ? optimizer_.weights_.dtype() : DType::kFloat32;
}

const MatrixState& Optimizer::matrix_at(std::int64_t arena_begin) const {
  const auto [unit, element] = weights_.plan().unit_element(weights_.rank(), arena_begin);
  const std::vector<MatrixState>& all = layout_.matrices(unit);
  const auto above = std::ranges::upper_bound(all, element, {}, &MatrixState::unit_begin);
  SLUICE_ASSERT(above != all.begin(), "no matrix begins at element {} of the arena", arena_begin);
  return *std::prev(above);
}

void Optimizer::Master::read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const {
  const ShardArena& weights = optimizer_.weights_;
  const bool is_frozen = begin >= weights.plan().trained_elements(weights.rank());
  if (is_frozen || weights.dtype() == DType::kFloat32 || dtype == DType::kBFloat16)
    return ArenaValues(weights).read(begin, count, dtype, out);
  const MatrixState& matrix = optimizer_.matrix_at(begin);
  constexpr std::int64_t kPiece = 4096;
  std::array<float, kPiece> values{};
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t first = begin - matrix.arena_begin + done, piece = std::min(kPiece, count - done);
    ops::read_master(optimizer_.weights_of(matrix), optimizer_.array(matrix, StateArray::kMaster),
                     matrix.master, first, piece, values.data());
    convert_elements(values.data(), DType::kFloat32, out + done * size_of(dtype), dtype, piece);
  }
}

void Optimizer::Master::read_buffers(std::int64_t begin, std::int64_t count, float* out) const {
  ArenaValues(optimizer_.weights_).read_buffers(begin, count, out);
}

const std::byte* Optimizer::Master::find(std::int64_t begin, DType dtype) const {
  return ArenaValues(optimizer_.weights_).find(begin, dtype);
}

}  // namespace sluice
