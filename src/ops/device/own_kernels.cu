#include "ops/device/own_kernels.hpp"

#include "ops/device/kernels.hpp"
#include "ops/device/launch.hpp"

#include <variant>

namespace sluice::ops::device {
namespace {

template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

/// Calls f with pointers to the elements as float or as the bits of bfloat16.
template <class F>
void by_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kFloat)
    f(elements<const float>(x));
  else
    f(elements<const std::uint16_t>(x));
}

/// Updates runs whose state has scales.
template <class Factors>
void update_codes(const UpdateRun& run, const UpdateFormats& formats, const Factors& factors) {
  const std::int64_t blocks = run.count / kStateBlock, rest = blocks * kStateBlock;
  launch_together<kStateBlock>(blocks, kernels::UpdateTogether<Factors>{run, formats, factors});
  if (rest < run.count) launch(1, kernels::UpdateRest<Factors>{run, formats, factors, rest});
}

template <class Step>
void update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const Step& step) {
  using Factors = arithmetic::FactorsOf<Step>;
  for (const UpdateRun& run : runs) {
    const Factors factors(step, run);
    if (formats.state == StateFormat::kInt8)
      update_codes(run, formats, factors);
    else
      launch(run.count, kernels::UpdateElement<Factors>{run, formats, factors});
  }
}

}  // namespace

void choose_experts(const at::Tensor& probabilities, const at::Tensor& chosen) {
  launch(chosen.size(0), kernels::ChooseExperts{elements<float>(probabilities), probabilities.size(1),
                                                chosen.size(1), elements<std::int64_t>(chosen)});
}

void add_columns(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                 const at::Tensor& table) {
  const std::int64_t count = rows.size(0), width = rows.size(1);
  by_type(rows, [&]<class T>(const T* data) {
    launch(width, kernels::AddColumn<T>{data, elements<std::int64_t>(ids), count, width, padding,
                                        elements<float>(table), table.stride(0)});
  });
}

void add_expert_rows(const at::Tensor& rows, const at::Tensor& row_of_slot, std::int64_t choices,
                     const at::Tensor& weights, const at::Tensor& sums) {
  by_type(rows, [&]<class T>(const T* data) {
    launch(sums.numel(), kernels::AddExpertRows<T>{data, elements<std::int32_t>(row_of_slot),
                                                   weights.defined() ? elements<float>(weights) : nullptr,
                                                   choices, sums.size(1), elements<float>(sums)});
  });
}

bool has_grouped_products() { return compute_capability() == 9 || compute_capability() == 10; }

void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out) {
  by_type(x, [&]<class T>(const T* data) {
    launch(x.numel(), kernels::DropElement<T>{data, elements<T>(out), draws.key(), first_row * x.size(1),
                                              static_cast<float>(rate), static_cast<float>(1 / (1 - rate))});
  });
}

void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step) {
  std::visit([&](const auto& constants) { update(runs, formats, constants); }, step);
}

void read_masters(const FactoredRun& run, MasterFormat format, float* out) {
  launch(run.rows * run.columns, kernels::ReadMaster{run.weights, run.master, format, out});
}

void write_masters(const FactoredRun& run, MasterFormat format, const float* values) {
  launch(run.rows * run.columns,
         kernels::WriteMaster{run.weights, run.master, format, run.draws, run.begin, values});
}

}  // namespace sluice::ops::device
