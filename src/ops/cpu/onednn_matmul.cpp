#include "ops/cpu/onednn_matmul.hpp"

#ifdef SLUICE_ONEDNN

#include "ops/cpu/level.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice::ops::cpu {
namespace {

// LibTorch's own calls of oneDNN write bfloat16 only, so that a gradient needs a rounded product and a second
// pass that adds it; they also look their kernel up anew each time.

/// A matrix as oneDNN sees it: row r, column c lies at r * row_stride + c * column_stride.
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  auto operator<=>(const Matrix&) const = default;
};

Matrix matrix_of(const at::Tensor& x) {
  // The stride of a dimension of size one has no meaning, and can have any value.
  const bool is_row_major = x.stride(1) == 1 || x.size(1) == 1;
  const std::int64_t rows = is_row_major ? std::max(x.stride(0), x.size(1)) : 1;
  const std::int64_t columns = is_row_major ? 1 : std::max(x.stride(1), x.size(0));
  return {x.size(0), x.size(1), x.size(0) == 1 && is_row_major ? x.size(1) : rows, columns};
}

dnnl::memory::desc describe(const Matrix& m, dnnl::memory::data_type type) {
  return {{m.rows, m.columns}, type, {m.row_stride, m.column_stride}};
}

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Key {
  Matrix a, b, out;
  bool is_float, adds;
  auto operator<=>(const Key&) const = default;
};

/// A oneDNN kernel, compiled for products of one shape.
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
    const dnnl::matmul::primitive_desc description(cpu_engine(), a_, b_, out_, attributes);
#else
    const dnnl::matmul::primitive_desc description({a_, b_, out_}, attributes, cpu_engine());
#endif
    is_reference_ = std::string_view(description.impl_info_str()).starts_with("ref");
    primitive_ = dnnl::matmul(description);
  }

  /// Whether the kernel is oneDNN's plain loop, which is far slower than our own products.
  [[nodiscard]] bool is_reference() const { return is_reference_; }

  void run(void* a, void* b, void* out) const {
    dnnl::stream stream(cpu_engine());
    primitive_.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(a_, cpu_engine(), a)},
                                {DNNL_ARG_WEIGHTS, dnnl::memory(b_, cpu_engine(), b)},
                                {DNNL_ARG_DST, dnnl::memory(out_, cpu_engine(), out)}});
    stream.wait();
  }

 private:
  dnnl::memory::desc a_, b_, out_;
  dnnl::matmul primitive_;
  bool is_reference_ = false;
};

/// Compiles a kernel; empty if oneDNN has none for this processor.
std::optional<Kernel> compiled(const Key& key) try {
  Kernel kernel(key);
  return kernel.is_reference() ? std::nullopt : std::optional(std::move(kernel));
} catch (const dnnl::error& error) {
  if (error.status == dnnl_unimplemented) return std::nullopt;
  throw;
}

/// Compiles each kernel once. A model has few shapes; the cache is bounded for models whose shapes never
/// repeat.
const std::optional<Kernel>& kernel_for(const Key& key) {
  constexpr std::size_t kMax = 1024;
  static thread_local std::map<Key, std::optional<Kernel>> kernels;
  if (const auto found = kernels.find(key); found != kernels.end()) return found->second;
  if (kernels.size() >= kMax) kernels.clear();
  return kernels.emplace(key, compiled(key)).first->second;
}

}  // namespace

bool onednn_has_products() {
  // Where oneDNN emulates the instructions, our own products take less than half the time; where the processor has
  // them, but multiplies float32 faster, they are faster too.
  using enum dnnl::cpu_isa;
  static const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  static const bool imitates = isa == sse41 || isa == avx || isa == avx2 || isa == avx2_vnni ||
                               isa == avx512_core || isa == avx512_core_vnni;
  // These names cover x86 processors only: on others, oneDNN either has kernels or has none.
  constexpr Matrix kSquare{64, 64, 64, 1};
  static const bool is_slow = has_tiles() && !multiplies_on_tiles();
  static const bool has =
      !imitates && !is_slow && compiled({kSquare, kSquare, kSquare, false, false}).has_value();
  return has;
}

bool onednn_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  const Key key{matrix_of(a), matrix_of(b), matrix_of(out), out.scalar_type() == at::kFloat,
                into == Into::kAdd};
  const std::optional<Kernel>& kernel = kernel_for(key);
  if (kernel) kernel->run(a.data_ptr(), b.data_ptr(), out.data_ptr());
  return kernel.has_value();
}

}  // namespace sluice::ops::cpu

#else

namespace sluice::ops::cpu {

bool onednn_has_products() { return false; }
bool onednn_matmul(const at::Tensor&, const at::Tensor&, const at::Tensor&, Into) { return false; }

}  // namespace sluice::ops::cpu

#endif
