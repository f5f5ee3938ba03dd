// Gradients and updates of flat arrays on the device against this processor's, on the same numbers.
#include "ops/cpu/gradients.hpp"
#include "ops/cpu/optimizer/optimizer.hpp"
#include "ops/device/processor.hpp"
#include "ops/runtime/tensor_device.hpp"
#include "other_device/on_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace sluice::ops {
namespace {

constexpr std::int64_t kCount = 1000;  // no multiple of a block of 8-bit state

std::byte* bytes(const at::Tensor& x) { return static_cast<std::byte*>(x.data_ptr()); }

using test::on_device;

at::ScalarType scalar_type(DType dtype) { return dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16; }

std::vector<UpdateFormats> all_formats() {
  std::vector<UpdateFormats> all{{.gradient = DType::kFloat32}, {.state = StateFormat::kInt8}};
  for (const DType gradient : {DType::kFloat32, DType::kBFloat16})
    for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::k24Bit, MasterFormat::kNone})
      for (const StateFormat state : {StateFormat::kFloat32, StateFormat::kBFloat16, StateFormat::kInt8})
        all.push_back({DType::kBFloat16, gradient, master, state});
  return all;
}

/// Weights and state, as bytes wide enough for any format.
struct Arrays {
  at::Tensor weights, master, first, second, first_scales, second_scales;

  Arrays(const at::Tensor& start, const UpdateFormats& formats)
      : weights(start.to(scalar_type(formats.weights)).clone()),
        master(at::zeros({kCount}, formats.master == MasterFormat::k24Bit ? at::kChar : at::kShort)),
        first(at::zeros({kCount}, type_of(formats.state, at::kChar))),
        second(at::zeros({kCount}, type_of(formats.state, at::kByte))),
        first_scales(at::zeros({kCount / kStateBlock + 1})),
        second_scales(at::zeros({kCount / kStateBlock + 1})) {}
  static at::ScalarType type_of(StateFormat state, at::ScalarType eight_bits) {
    return state == StateFormat::kFloat32 ? at::kFloat
           : state == StateFormat::kInt8  ? eight_bits
                                          : at::kBFloat16;
  }
  void move_to_device() {
    for (at::Tensor* x : {&weights, &master, &first, &second, &first_scales, &second_scales})
      *x = on_device(*x);
  }
  [[nodiscard]] UpdateRun run(const at::Tensor& gradient, std::uint64_t draws) const {
    return {.count = kCount,
            .begin = 0,
            .draws = draws,
            .weights = bytes(weights),
            .master = bytes(master),
            .first = bytes(first),
            .second = bytes(second),
            .first_scales = static_cast<float*>(first_scales.data_ptr()),
            .second_scales = static_cast<float*>(second_scales.data_ptr()),
            .gradient = bytes(gradient),
            .gradient_scale = 0.5F,
            .decays = true};
  }
};

void expect_near(const at::Tensor& found, const at::Tensor& expected, double allowed, const char* what) {
  const at::Tensor distance = (found.cpu().to(at::kDouble) - expected.to(at::kDouble)).abs();
  EXPECT_LE((distance / (1 + expected.to(at::kDouble).abs())).max().item<double>(), allowed) << what;
}

/// The same functions of the same numbers: rounding alone may differ, which turns a code or a last bit now
/// and then.
void expect_same(const Arrays& found, const Arrays& expected, const UpdateFormats& formats) {
  // One code more or less moves the next step a little.
  const bool codes = formats.state == StateFormat::kInt8;
  const double weight = formats.weights == DType::kBFloat16 ? 1e-2 : codes ? 2e-4 : 1e-6;
  const double state = formats.state == StateFormat::kFloat32 ? 1e-6 : codes ? 1.0 : 1e-2;
  expect_near(found.weights, expected.weights, weight, "weights");
  expect_near(found.first, expected.first, state, "first");
  expect_near(found.second, expected.second, state, "second");
  expect_near(found.first_scales, expected.first_scales, 1e-6, "scales of the first");
  expect_near(found.second_scales, expected.second_scales, 1e-6, "scales of the second");
  const at::Tensor differ = found.weights.cpu().ne(expected.weights);
  EXPECT_LE(differ.sum().item<std::int64_t>(), formats.weights == DType::kFloat32 ? kCount : kCount / 50);
}

/// `update(processor is this one, runs, formats, number of the step)`.
template <class Update>
void expect_same_updates(const UpdateFormats& formats, Update update) {
  SCOPED_TRACE(testing::Message() << "weights " << name_of(formats.weights) << ", gradient "
                                  << name_of(formats.gradient) << ", master " << name_of(formats.master)
                                  << ", state " << name_of(formats.state));
  at::manual_seed(3);
  const at::Tensor start = at::randn({kCount});
  Arrays here(start, formats), there(start, formats);
  there.move_to_device();
  for (int t = 1; t <= 3; ++t) {
    const at::Tensor gradient = at::randn({kCount}).to(scalar_type(formats.gradient));
    const at::Tensor gradient_there = on_device(gradient);
    const UpdateRun run = here.run(gradient, static_cast<std::uint64_t>(t));
    const UpdateRun run_there = there.run(gradient_there, static_cast<std::uint64_t>(t));
    update(true, std::span(&run, 1), formats, t);
    update(false, std::span(&run_there, 1), formats, t);
    expect_same(there, here, formats);
  }
}

TEST(OtherDeviceUpdates, adamw_in_every_format) {
  for (const UpdateFormats& formats : all_formats())
    expect_same_updates(
        formats, [](bool is_cpu, std::span<const UpdateRun> runs, const UpdateFormats& kept, int t) {
          const AdamWStep step{1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t)};
          is_cpu ? cpu::update_moments(runs, kept, step) : device::update_moments(runs, kept, step);
        });
}

TEST(OtherDeviceUpdates, lion_in_every_format) {
  for (const UpdateFormats& formats : all_formats())
    expect_same_updates(
        formats, [](bool is_cpu, std::span<const UpdateRun> runs, const UpdateFormats& kept, int) {
          const LionStep step{1e-3, 0.9, 0.99, 0.1};
          is_cpu ? cpu::update_moments(runs, kept, step) : device::update_moments(runs, kept, step);
        });
}

struct FactoredArrays {
  at::Tensor weights, master, row, column;
  [[nodiscard]] FactoredRun run(const at::Tensor& gradient) const {
    const bool is_vector = weights.dim() == 1;
    return {.rows = is_vector ? 1 : weights.size(0),
            .columns = column.numel(),
            .draws = 9,
            .weights = bytes(weights),
            .master = bytes(master),
            .gradient = bytes(gradient),
            .row = is_vector ? nullptr : static_cast<float*>(row.data_ptr()),
            .column = static_cast<float*>(column.data_ptr()),
            .gradient_scale = 0.5F};
  }
};

void expect_same_factored(at::IntArrayRef sizes, const UpdateFormats& formats) {
  SCOPED_TRACE(testing::Message() << sizes.size() << " dims, weights " << name_of(formats.weights)
                                  << ", master " << name_of(formats.master));
  at::manual_seed(5);
  FactoredArrays here{at::randn(sizes).to(scalar_type(formats.weights)),
                      at::zeros(sizes, formats.master == MasterFormat::k24Bit ? at::kChar : at::kShort),
                      at::zeros({sizes.front()}), at::zeros({sizes.back()})};
  FactoredArrays there{on_device(here.weights), on_device(here.master), on_device(here.row),
                       on_device(here.column)};
  for (int t = 1; t <= 2; ++t) {
    const at::Tensor gradient = at::randn(sizes).to(scalar_type(formats.gradient)),
                     gradient_there = on_device(gradient);
    const FactoredRun run = here.run(gradient), run_there = there.run(gradient_there);
    const double rho = std::pow(t, kAdafactorDecay);
    std::vector<double> squares(static_cast<std::size_t>(run.columns)), squares_there(squares);
    const FactoredSums sums = cpu::adafactor_sums(run, formats, rho, squares.data());
    const FactoredSums sums_there = device::adafactor_sums(run_there, formats, rho, squares_there.data());
    EXPECT_NEAR(sums_there.weight_squares, sums.weight_squares, 1e-5 * sums.weight_squares);
    EXPECT_NEAR(sums_there.rows, sums.rows, 1e-5 * (1 + sums.rows));
    for (std::size_t i = 0; i < squares.size(); ++i)
      ASSERT_NEAR(squares_there[i], squares[i], 1e-5 * (1 + squares[i]));
    const double mean = sums.rows / static_cast<double>(run.rows);
    cpu::adafactor_columns(run, rho, squares.data(), run.rows);
    device::adafactor_columns(run_there, rho, squares.data(), run.rows);
    const double update = cpu::adafactor_update_squares(run, formats, mean);
    EXPECT_NEAR(device::adafactor_update_squares(run_there, formats, mean), update, 1e-4 * update);
    cpu::adafactor_update(run, formats, mean, 0.999, 1e-2);
    device::adafactor_update(run_there, formats, mean, 0.999, 1e-2);
    expect_near(there.weights, here.weights, formats.weights == DType::kFloat32 ? 1e-5 : 1e-2, "weights");
    expect_near(there.row, here.row, 1e-5, "rows");
    expect_near(there.column, here.column, 1e-5, "columns");
  }
}

TEST(OtherDeviceUpdates, adafactor_in_every_format) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{7, 30}, std::vector<std::int64_t>{50}}) {
    expect_same_factored(sizes, {.state = StateFormat::kFactored});
    for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::k24Bit, MasterFormat::kNone})
      expect_same_factored(sizes, {DType::kBFloat16, DType::kBFloat16, master, StateFormat::kFactored});
  }
}

TEST(OtherDeviceUpdates, master_weights_are_read_in_main_memory) {
  at::manual_seed(1);
  const UpdateFormats formats{.weights = DType::kBFloat16, .master = MasterFormat::k24Bit};
  Arrays here(at::randn({kCount}), formats);
  here.master.random_(-128, 128);
  Arrays there = here;
  there.move_to_device();
  std::vector<float> expected(100), found(100);
  cpu::read_master(bytes(here.weights), bytes(here.master), formats.master, 33, 100, expected.data());
  device::read_master(bytes(there.weights), bytes(there.master), formats.master, 33, 100, found.data());
  EXPECT_EQ(found, expected);
}

TEST(OtherDeviceUpdates, gradients) {
  at::manual_seed(1);
  const at::Tensor part = at::randn({kCount}), sum = at::randn({kCount}), part_there = on_device(part),
                   sum_there = on_device(sum);
  const auto floats = [](const at::Tensor& x) { return static_cast<float*>(x.data_ptr()); };
  cpu::add(floats(part), kCount, floats(sum));
  device::add(floats(part_there), kCount, floats(sum_there));
  expect_near(sum_there, sum, 0, "sum");
  const double squares = cpu::sum_of_squares(floats(sum), kCount);
  EXPECT_NEAR(device::sum_of_squares(floats(sum_there), kCount), squares, 1e-9 * squares);
  const at::Tensor rounded = at::empty({kCount}, at::kBFloat16), rounded_there = on_device(rounded);
  cpu::round_to_bfloat16(floats(sum), kCount, bytes(rounded));
  device::round_to_bfloat16(floats(sum_there), kCount, bytes(rounded_there));
  expect_near(rounded_there, rounded, 0, "rounded");
  const double of_rounded = cpu::sum_of_squares(bytes(rounded), DType::kBFloat16, kCount);
  EXPECT_NEAR(device::sum_of_squares(bytes(rounded_there), DType::kBFloat16, kCount), of_rounded,
              1e-9 * of_rounded);
  device::clear(floats(sum_there), kCount);
  EXPECT_EQ(device::sum_of_squares(floats(sum_there), kCount), 0);
}

}  // namespace
}  // namespace sluice::ops
