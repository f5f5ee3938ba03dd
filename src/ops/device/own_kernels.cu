#include "ops/device/own_kernels.hpp"

#include "base/round.hpp"
#include "ops/device/kernels.hpp"
#include "ops/device/launch.hpp"

namespace sluice::ops::device {
namespace {

template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

/// Calls f with the elements as float or as the bits of bfloat16.
template <class F>
void by_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kFloat)
    f(elements<const float>(x));
  else
    f(elements<const std::uint16_t>(x));
}

/// Elements that an index stands for: one, or those that share a scale.
template <class Factors, class Step>
void update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const Step& step) {
  for (const UpdateRun& run : runs) {
    if (formats.state == StateFormat::kInt8)
      launch(divide_up(run.count, kStateBlock), kernels::UpdateMoments<kStateBlock, Factors>{run, formats, {step, run}});
    else
      launch(run.count, kernels::UpdateMoments<1, Factors>{run, formats, {step, run}});
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

void dropout_rows(const at::Tensor& x, double rate, const RandomStream& draws, std::int64_t first_row,
                  const at::Tensor& out) {
  by_type(x, [&]<class T>(const T* data) {
    launch(x.numel(), kernels::DropElement<T>{data, elements<T>(out), draws.key(), first_row * x.size(1),
                                              static_cast<float>(rate), static_cast<float>(1 / (1 - rate))});
  });
}

void adamw_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const AdamWStep& step) {
  update<arithmetic::AdamWFactors>(runs, formats, step);
}

void lion_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const LionStep& step) {
  update<arithmetic::LionFactors>(runs, formats, step);
}

void read_masters(const FactoredRun& run, MasterFormat format, float* out) {
  launch(run.rows * run.columns, kernels::ReadMaster{run.weights, run.master, format, out});
}

void write_masters(const FactoredRun& run, MasterFormat format, const float* values) {
  launch(run.rows * run.columns,
         kernels::WriteMaster{run.weights, run.master, format, run.draws, run.begin, values});
}

}  // namespace sluice::ops::device
