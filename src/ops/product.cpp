#include "ops/product.hpp"

#include "base/error.hpp"
#include "ops/kernel.hpp"
#include "ops/tile_block.hpp"
#include "ops/tile_product.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cstdint>

#ifdef SLUICE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <map>
#endif

namespace sluice::ops {
namespace {

#ifdef SLUICE_ONEDNN

// LibTorch's own way to oneDNN writes bfloat16 alone, so that a gradient costs a rounded product and a pass
// that adds it; and it looks for its kernel anew each time.

/// A matrix as oneDNN sees it: row r, column c lies at r * row_stride + c * column_stride.
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  auto operator<=>(const Matrix&) const = default;
};

Matrix matrix_of(const at::Tensor& x) {
  // The stride of a dimension of one means nothing, and takes any value.
  const bool is_row_major = x.stride(1) == 1 || x.size(1) == 1;
  const std::int64_t rows = is_row_major ? std::max(x.stride(0), x.size(1)) : 1;
  const std::int64_t columns = is_row_major ? 1 : std::max(x.stride(1), x.size(0));
  return {x.size(0), x.size(1), x.size(0) == 1 && is_row_major ? x.size(1) : rows, columns};
}

dnnl::memory::desc describe(const Matrix& m, dnnl::memory::data_type type) {
  return {{m.rows, m.columns}, type, {m.row_stride, m.column_stride}};
}

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Key {
  Matrix a, b, out;
  bool is_float, adds;
  auto operator<=>(const Key&) const = default;
};

/// A compiled product of one shape.
class Kernel {
 public:
  explicit Kernel(const Key& key)
      : a_(describe(key.a, dnnl::memory::data_type::bf16)),
        b_(describe(key.b, dnnl::memory::data_type::bf16)),
        out_(describe(key.out, key.is_float ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16)) {
    dnnl::primitive_attr attributes;
    if (key.adds) {
      dnnl::post_ops adding;
      adding.append_sum(1.0F);
      attributes.set_post_ops(adding);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(cpu(), a_, b_, out_, attributes);
#else
    const dnnl::matmul::primitive_desc description({a_, b_, out_}, attributes, cpu());
#endif
    primitive_ = dnnl::matmul(description);
  }

  void run(void* a, void* b, void* out) const {
    dnnl::stream stream(cpu());
    primitive_.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(a_, cpu(), a)},
                                {DNNL_ARG_WEIGHTS, dnnl::memory(b_, cpu(), b)},
                                {DNNL_ARG_DST, dnnl::memory(out_, cpu(), out)}});
    stream.wait();
  }

 private:
  dnnl::memory::desc a_, b_, out_;
  dnnl::matmul primitive_;
};

/// Kernels are compiled once. A model has few shapes; one whose shapes never repeat must not grow without
/// end.
const Kernel& kernel_for(const Key& key) {
  constexpr std::size_t kMost = 1024;
  static thread_local std::map<Key, Kernel> kernels;
  if (const auto found = kernels.find(key); found != kernels.end()) return found->second;
  if (kernels.size() >= kMost) kernels.clear();
  return kernels.emplace(key, Kernel(key)).first->second;
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  const Key key{matrix_of(a), matrix_of(b), matrix_of(out), out.scalar_type() == at::kFloat,
                into == Into::kAdd};
  kernel_for(key).run(a.data_ptr(), b.data_ptr(), out.data_ptr());
}

#else

/// LibTorch's product of bfloat16 is bfloat16 too, so sums that must not be rounded are those of float32
/// copies; some depth at a time, so that these stay small.
void multiply_copies(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  constexpr std::int64_t kElements = 4 << 20;
  at::Tensor target = out;
  if (into == Into::kReplace) target.zero_();
  const std::int64_t step = std::max<std::int64_t>(16, kElements / (a.size(0) + b.size(1)));
  for (std::int64_t begin = 0; begin < a.size(1); begin += step) {
    const std::int64_t count = std::min(step, a.size(1) - begin);
    target.addmm_(a.narrow(1, begin, count).to(at::kFloat), b.narrow(0, begin, count).to(at::kFloat));
  }
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  at::Tensor target = out;
  if (out.scalar_type() == at::kFloat)
    multiply_copies(out, a, b, into);
  else if (into == Into::kReplace)
    at::mm_out(target, a, b);
  else
    target.addmm_(a, b);
}

#endif

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
    return suits_tiles(out, a, into) ? multiply_on_tiles(out, a, b, into) : multiply(out, a, b, into);
  if (into == Into::kAdd)
    target.addmm_(a, b);
  else
    at::mm_out(target, a, b);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  product(out, a, b);
  return out;
}

}  // namespace sluice::ops
