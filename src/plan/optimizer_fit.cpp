#include "plan/optimizer_fit.hpp"

#include <algorithm>
#include <array>

namespace sluice {

std::vector<OptimizerMode> fitting_modes(const OptimizerMode& written, DType weights) {
  struct Row {
    StateFormat state;
    MasterFormat master;
    GradientMode gradients;
  };
  constexpr std::array<Row, 6> kRows{
      {{StateFormat::kFloat32, MasterFormat::kFloat32, GradientMode::kFloat32},
       {StateFormat::kFloat32, MasterFormat::kFloat32, GradientMode::kBFloat16},
       {StateFormat::kBFloat16, MasterFormat::kFloat32, GradientMode::kBFloat16},
       {StateFormat::kInt8, MasterFormat::k24Bit, GradientMode::kBFloat16},
       {StateFormat::kInt8, MasterFormat::k24Bit, GradientMode::kRelease},
       {StateFormat::kInt8, MasterFormat::kNone, GradientMode::kRelease}}};
  std::vector<OptimizerMode> modes;
  for (const Row& row : kRows) {
    OptimizerMode mode = written;
    mode.state = written.kind == OptimizerKind::kAdafactor ? StateFormat::kFactored : row.state;
    mode.master = weights == DType::kFloat32 ? MasterFormat::kFloat32 : row.master;
    mode.gradients = row.gradients;
    if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
  }
  return modes;
}

}  // namespace sluice
