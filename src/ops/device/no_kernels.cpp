#include "base/error.hpp"
#include "ops/device/own_kernels.hpp"

namespace sluice::ops::device {
namespace {

[[noreturn]] void refuse() {
  fail(ExitCode::kBadConfig, "this build has no kernels for a device; configure it with -DSLUICE_CUDA=ON");
}

}  // namespace

void choose_experts(const at::Tensor&, const at::Tensor&) { refuse(); }
void add_columns(const at::Tensor&, const at::Tensor&, std::int64_t, const at::Tensor&) { refuse(); }
void add_expert_rows(const at::Tensor&, const at::Tensor&, std::int64_t, const at::Tensor&,
                     const at::Tensor&) {
  refuse();
}
bool has_grouped_products() { return false; }
void dropout_rows(const at::Tensor&, double, const RandomStream&, std::int64_t, const at::Tensor&) {
  refuse();
}
void update_moments(std::span<const UpdateRun>, const UpdateFormats&, const MomentStep&) { refuse(); }
void read_masters(const FactoredRun&, MasterFormat, float*) { refuse(); }
void write_masters(const FactoredRun&, MasterFormat, const float*) { refuse(); }

}  // namespace sluice::ops::device
