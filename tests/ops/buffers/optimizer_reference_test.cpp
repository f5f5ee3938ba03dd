// Updates against torch.optim.AdamW, torch.optim.Adafactor and torchao's 8-bit AdamW, whose numbers
// tests/fixtures/make_optimizer_reference.py has written for real gradients.
#include "io/hdf5.hpp"
#include "ops/buffers/update_shards.hpp"
#include "ops/op_check.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

namespace sluice::ops {
namespace {

/// Numbers of one part of the model.
class TorchReference {
 public:
  explicit TorchReference(std::string part) : part_(std::move(part)) {}

  [[nodiscard]] at::Tensor tensor(const std::string& what) const {
    const hdf5::Dataset dataset = file_.dataset("/" + part_ + "/" + what);
    return at::tensor(dataset.read<float>()).reshape(dataset.shape());
  }
  [[nodiscard]] double setting(const std::string& name, std::size_t index = 0) const {
    return file_.attribute<double>("/", name)[index];
  }
  [[nodiscard]] AdamWStep adamw_step(int t) const {
    AdamWStep step{setting("adamw_lr"), setting("adamw_betas", 0), setting("adamw_betas", 1),
                   setting("adamw_eps"), setting("weight_decay")};
    step.bias_correction1 = 1 - std::pow(step.beta1, t);
    step.bias_correction2 = 1 - std::pow(step.beta2, t);
    return step;
  }
  /// Weights after the first `steps` gradients.
  [[nodiscard]] at::Tensor adamw(std::int64_t steps, StateFormat state) const {
    const at::Tensor start = tensor("start"), gradients = tensor("gradients");
    Shard shard(start.flatten(), {.state = state});
    for (std::int64_t t = 1; t <= steps; ++t)
      shard.adamw(gradients[t - 1].contiguous().flatten(), adamw_step(static_cast<int>(t)));
    return shard.weights.reshape(start.sizes());
  }
  [[nodiscard]] at::Tensor adafactor(std::int64_t steps) const {
    const at::Tensor start = tensor("start"), gradients = tensor("gradients");
    Factored factored(start, {0, start.dim() > 1 ? start.size(0) : 1});
    for (std::int64_t t = 1; t <= steps; ++t)
      factored.step(static_cast<int>(t), gradients[t - 1].contiguous(), setting("adafactor_lr"),
                    setting("weight_decay"));
    return factored.weights;
  }

 private:
  std::string part_;
  hdf5::File file_ = hdf5::File::open(fixture_folder() / "optimizer.h5");
};

constexpr std::int64_t kSteps = 5;

/// Every element within one unit in the last place of the largest weight, for each step.
void expect_equal_but_for_rounding(const TorchReference& reference, const at::Tensor& weights,
                                   const std::string& expected, std::int64_t steps) {
  constexpr double kUnit = std::numeric_limits<float>::epsilon();
  expect_close(weights, reference.tensor(expected), static_cast<double>(steps) * kUnit);
}

double root_mean_square(const at::Tensor& x) { return std::sqrt(x.square().mean().item<double>()); }

TEST(OptimizerReference, adamw_moves_each_weight_as_torch_does) {
  for (const char* part : {"attention", "expert", "norm"}) {
    SCOPED_TRACE(part);
    const TorchReference reference(part);
    expect_equal_but_for_rounding(reference, reference.adamw(1, StateFormat::kFloat32), "adamw_first", 1);
    expect_equal_but_for_rounding(reference, reference.adamw(kSteps, StateFormat::kFloat32), "adamw", kSteps);
  }
}

TEST(OptimizerReference, adafactor_moves_each_weight_as_torch_does) {
  for (const char* part : {"attention", "expert", "norm"}) {
    SCOPED_TRACE(part);
    const TorchReference reference(part);
    expect_equal_but_for_rounding(reference, reference.adafactor(1), "adafactor_first", 1);
    expect_equal_but_for_rounding(reference, reference.adafactor(kSteps), "adafactor", kSteps);
  }
}

// The first step's moments are not read from codes yet: as exact as float32.
TEST(OptimizerReference, adamw_with_8_bits_begins_as_torch_does) {
  for (const char* part : {"attention", "expert"}) {
    const TorchReference reference(part);
    expect_equal_but_for_rounding(reference, reference.adamw(1, StateFormat::kInt8), "adamw_first", 1);
  }
}

// Codes and blocks are other ones than torchao's, so what both do to the weights is held against AdamW: each
// element to a share of the learning rate, and all together nearer than torchao's 8 bits come.
TEST(OptimizerReference, adamw_with_8_bits_is_nearer_to_torch_than_torchao_is) {
  constexpr double kMaxShareOfRate = 1.0, kMaxOfMovement = 0.015;
  for (const char* part : {"attention", "expert"}) {
    SCOPED_TRACE(part);
    const TorchReference reference(part);
    const at::Tensor exact = reference.tensor("adamw");
    const at::Tensor ours = reference.adamw(kSteps, StateFormat::kInt8) - exact;
    const at::Tensor theirs = reference.tensor("adamw_8bit") - exact;
    EXPECT_LE(ours.abs().max().item<double>(), kMaxShareOfRate * reference.setting("adamw_lr"));
    EXPECT_LE(root_mean_square(ours), kMaxOfMovement * root_mean_square(exact - reference.tensor("start")));
    EXPECT_LE(root_mean_square(ours), root_mean_square(theirs));
  }
}

}  // namespace
}  // namespace sluice::ops
