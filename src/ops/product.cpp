#include "ops/product.hpp"

#include "base/error.hpp"
#include "ops/kernel.hpp"
#include "ops/meanwhile.hpp"
#include "ops/onednn_product.hpp"
#include "ops/tile_block.hpp"
#include "ops/tile_product.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cstdint>

namespace sluice::ops {
namespace {

/// LibTorch's product of bfloat16 is bfloat16 too, and a slow one where the processor has no instructions for
/// it. So products are those of float32 copies, some depth at a time, so that these stay small.
void multiply_copies(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  constexpr std::int64_t kElements = 4 << 20;
  const bool replaces = into == Into::kReplace;
  const bool copies = out.scalar_type() != at::kFloat;
  at::Tensor sums = copies && replaces ? at::empty(out.sizes(), at::kFloat) : out.to(at::kFloat);
  const std::int64_t step = std::max<std::int64_t>(16, kElements / (a.size(0) + b.size(1)));
  for (std::int64_t begin = 0; begin < a.size(1); begin += step) {
    const std::int64_t count = std::min(step, a.size(1) - begin);
    sums.addmm_(a.narrow(1, begin, count).to(at::kFloat), b.narrow(0, begin, count).to(at::kFloat),
                /*beta=*/replaces && begin == 0 ? 0 : 1);
  }
  if (copies) out.copy_(sums);
}

/// Whether our own product on matrix tiles takes this one, and is the faster one: laying out a side must pay.
bool suits_tiles(const at::Tensor& out, const at::Tensor& a, Into into) {
  constexpr std::int64_t kLeastWork = 1 << 23;  // multiplications
  constexpr std::int64_t kLeastRows = 32, kLeastColumns = 256;
  const bool rounds = out.scalar_type() != at::kFloat;
  if (rounds && (into == Into::kAdd || a.size(1) > kMostRoundedDepth || out.size(0) < kLeastRows ||
                 out.size(1) < kLeastColumns))
    return false;
  return out.numel() * a.size(1) >= kLeastWork && has_tiles();
}

void multiply_on_tiles(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  // The stride of a dimension of one means nothing.
  const std::int64_t depth = a.size(1);
  const tiles::Side left{kernel::bits(a), a.size(0), depth, a.stride(0), depth == 1 ? 1 : a.stride(1)};
  const tiles::Side right{kernel::bits(b), b.size(1), depth, b.stride(1), depth == 1 ? 1 : b.stride(0)};
  const TileResult result = out.scalar_type() != at::kFloat ? TileResult::kRounded
                            : into == Into::kAdd            ? TileResult::kAdds
                                                            : TileResult::kReplaces;
  tile_product({out.data_ptr(), out.stride(0), result}, left, right);
}

/// Of bfloat16.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (suits_tiles(out, a, into))
    multiply_on_tiles(out, a, b, into);
  else if (!onednn_has_products() || !onednn_product(out, a, b, into))
    multiply_copies(out, a, b, into);
}

}  // namespace

void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  SLUICE_ASSERT(a.size(1) == b.size(0) && out.size(0) == a.size(0) && out.size(1) == b.size(1),
                "a product of {} x {} and {} x {} into {} x {}", a.size(0), a.size(1), b.size(0), b.size(1),
                out.size(0), out.size(1));
  if (out.numel() == 0) return;
  at::Tensor target = out;
  if (a.size(1) == 0) {
    if (into == Into::kReplace) target.zero_();
    return;
  }
  if (a.scalar_type() == at::kBFloat16)
    multiply(out, a, b, into);
  else if (into == Into::kAdd)
    target.addmm_(a, b);
  else
    at::mm_out(target, a, b);
  give_turn();
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product(out, a, b);
  return out;
}

}  // namespace sluice::ops
