#include "ops/buffers/token_rows.hpp"

#include "base/error.hpp"
#include "ops/runtime/processor.hpp"

namespace sluice::ops {

at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens) {
  return on::take_rows(x, tokens);
}

void round_rows(const at::Tensor& sums, const at::Tensor& out) { on::round_rows(sums, out); }

at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                        std::int64_t token_count) {
  return on::sum_of_parts(rows, tokens, token_count);
}

at::Tensor code_rows(const at::Tensor& x) {
  SLUICE_ASSERT(x.is_cpu(), "rows of {} elements lie on a device, which has no codes for them", x.size(1));
  return cpu::code_rows(x);
}

void read_coded_rows(const at::Tensor& codes, const at::Tensor& out) { cpu::read_coded_rows(codes, out); }

TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                       std::int64_t lists) {
  return on::list_tokens(chosen, list_of_expert, lists);
}

}  // namespace sluice::ops
