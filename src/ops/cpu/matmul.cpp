#include "ops/cpu/matmul.hpp"

#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/cpu/products/arm.hpp"
#include "ops/cpu/products/kernels.hpp"
#include "ops/cpu/products/widening.hpp"
#include "ops/cpu/tiles/matmul.hpp"
#include "ops/runtime/no_view_tracking.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace sluice::ops::cpu {
namespace {

/// Kernels for processors that multiply float32 alone, and the least levels that run them, the best first; the
/// last one serves everywhere.
struct WideningKernel {
  Level level;
  const products::ProductKernel* kernel;
};
constexpr WideningKernel kWideningKernels[] = {
#if defined(__x86_64__)
    {Level::kAvx512, &products::kAvx512},
    {Level::kAvx2, &products::kAvx2},
    {Level::kAvx, &products::kAvx},
    {Level::kAny, &products::kAnyProcessor}};
#elif defined(__aarch64__)
    {Level::kAny, &products::kNeon}};
#else
    {Level::kAny, &products::kAnyProcessor}};
#endif

/// Returns the number of parts along the larger side of `out` that a product is cut into, one for each
/// thread.
std::int64_t parts_of(const at::Tensor& out, std::int64_t depth) {
  constexpr std::int64_t kMinWork = 1 << 18;  // Least number of multiplications of a part.
  constexpr std::int64_t kMinPart = 32;       // Least number of rows or columns of a part.
  if (at::in_parallel_region() || out.numel() * depth < kMinWork) return 1;
  return std::clamp<std::int64_t>(std::max(out.size(0), out.size(1)) / kMinPart, 1, at::get_num_threads());
}

void multiply_on_one_thread(at::Tensor out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (into == Into::kAdd)
    out.addmm_(a, b);
  else
    at::mm_out(out, a, b);
}

/// Multiplies by LibTorch's BLAS. OpenBLAS splits small products badly (each thread packs the same operand,
/// and threads wait for one another in between), so each thread gets a product of its own here.
void multiply_by_blas(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  constexpr std::int64_t kQuantum = 16;  // Number of rows or columns that a microkernel computes at a time.
  const std::int64_t parts = parts_of(out, a.size(1));
  if (parts == 1) return multiply_on_one_thread(out, a, b, into);
  const bool cuts_rows = out.size(0) >= out.size(1);
  const std::int64_t size = out.size(cuts_rows ? 0 : 1);
  const std::int64_t part = round_up(divide_up(size, parts), kQuantum);
  at::parallel_for(0, divide_up(size, part), /*grain_size=*/1, [&](std::int64_t first, std::int64_t last) {
    const c10::AutoGradMode no_grad(false);  // The thread's own modes.
    const NoViewTracking guard;
    const std::int64_t begin = first * part, count = std::min(last * part, size) - begin;
    if (cuts_rows)
      multiply_on_one_thread(out.narrow(0, begin, count), a.narrow(0, begin, count), b, into);
    else
      multiply_on_one_thread(out.narrow(1, begin, count), a, b.narrow(1, begin, count), into);
  });
}

/// Whether the product on matrix tiles can compute this product and is faster: the time to pack a side must
/// pay off.
bool suits_tiles(const at::Tensor& out, const at::Tensor& a, Into into) {
  constexpr std::int64_t kMinWork = 1 << 23;  // Least number of multiplications.
  constexpr std::int64_t kMinRows = 32, kMinColumns = 256;
  const bool rounds = out.scalar_type() != at::kFloat;
  if (rounds && (into == Into::kAdd || a.size(1) > kMaxRoundedDepth || out.size(0) < kMinRows ||
                 out.size(1) < kMinColumns))
    return false;
  return out.numel() * a.size(1) >= kMinWork && multiplies_on_tiles();
}

/// A matrix of bfloat16 as a side of a product, whose lines are its rows.
products::Operand side_of(const at::Tensor& a) {
  // The stride of a dimension of size one has no meaning.
  const std::int64_t depth = a.size(1);
  return {kernel::bits(a), a.size(0), depth, a.stride(0), depth == 1 ? 1 : a.stride(1)};
}

/// Multiplies by kernels of ours.
void multiply_packed(const at::Tensor& out, const at::Tensor& a, const products::Operand& right, Into into,
                     bool on_tiles) {
  const ProductTarget target{out.data_ptr(), out.stride(0), out.scalar_type() == at::kFloat,
                             into == Into::kAdd};
  if (on_tiles)
    tile_matmul(target, side_of(a), right);
  else
    widening_matmul(widening_kernel(), target, side_of(a), right);
}

/// Multiplies bfloat16 matrices by the fastest way of this processor.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  const bool on_tiles = suits_tiles(out, a, into);
  if (!on_tiles && onednn_has_products() && onednn_matmul(out, a, b, into)) return;
  multiply_packed(out, a, side_of(b.t()), into, on_tiles);
}

}  // namespace

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  SLUICE_ASSERT(a.size(1) == b.size(0) && out.size(0) == a.size(0) && out.size(1) == b.size(1),
                "a product of {} x {} and {} x {} does not fit {} x {}", a.size(0), a.size(1), b.size(0),
                b.size(1), out.size(0), out.size(1));
  if (out.numel() == 0) return;
  if (a.size(1) == 0) {
    if (into == Into::kReplace) out.zero_();
    return;
  }
  if (is_few_rows_times_weight(out, a, b, into))
    multiply_few_rows(out, a, std::array{Range{0, a.size(0)}}, std::array{b.t()});
  else if (a.scalar_type() == at::kBFloat16)
    multiply(out, a, b, into);
  else
    multiply_by_blas(out, a, b, into);
  poll_progress();
}

bool matmul_of_codes(const at::Tensor& out, const at::Tensor& a, std::span<const CodedRows> weight) {
  const bool on_tiles = suits_tiles(out, a, Into::kReplace);
  const bool is_ours = on_tiles || !onednn_has_products();
  if (!is_ours || a.scalar_type() != at::kBFloat16 || a.size(0) <= kFewRows || !products::can_be_side(weight))
    return false;
  multiply_packed(out, a, {nullptr, out.size(1), a.size(1), 0, 1, weight}, Into::kReplace, on_tiles);
  poll_progress();
  return true;
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  cpu::matmul(out, a, b, Into::kReplace);
  return out;
}

const products::ProductKernel& widening_kernel() {
  static const products::ProductKernel& kernel =
      *std::ranges::find_if(kWideningKernels, [](const WideningKernel& row) {
         return row.level <= level_here();
       })->kernel;
  return kernel;
}

std::string_view matmul_means() {
  return has_tile_registers()    ? "on tile registers (AMX)"
         : multiplies_on_tiles() ? "on vectors (AVX-512)"
         : onednn_has_products() ? "by oneDNN"
                                 : widening_kernel().means;
}

}  // namespace sluice::ops::cpu
