#include "ops/mamba2_scan.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::ops {
namespace {

constexpr std::int64_t kHeads = 4, kWidth = 6, kState = 8;

/// Decays drawn from 1e-4 to 40 a token, evenly in their logarithms; one head is a hundred times as strong as the
/// others.
Tensors inputs(std::int64_t length, std::int64_t groups, at::ScalarType dtype) {
  const at::Tensor strength = at::tensor({100.0F, 1.0F, 1.0F, 0.01F}).unsqueeze(-1);
  const at::Tensor share = at::sigmoid(2 * numbers({2, length, kHeads}, at::kFloat, 4));
  return {(numbers({2, length, kHeads, kWidth}, at::kFloat, 1) * strength).to(dtype),
          numbers({2, length, groups, kState}, dtype, 2),
          numbers({2, length, groups, kState}, dtype, 3),
          -at::exp(std::log(1e-4) + share * std::log(40 / 1e-4)),
          at::sigmoid(numbers({2, length, kHeads}, at::kFloat, 5)),
          numbers({kHeads}, at::kFloat, 6)};
}

Mamba2Inputs named(const Tensors& in) { return {in[0], in[1], in[2], in[3], in[4], in[5]}; }

/// Token by token.
at::Tensor recurrence(const Tensors& in) {
  const std::int64_t repeats = in[0].size(2) / in[1].size(2);
  const at::Tensor b = in[1].repeat_interleave(repeats, 2), c = in[2].repeat_interleave(repeats, 2);
  at::Tensor state = at::zeros({in[0].size(0), in[0].size(2), b.size(3), in[0].size(3)}, in[0].options());
  Tensors out;
  for (std::int64_t t = 0; t < in[0].size(1); ++t) {
    const auto at_token = [&](std::size_t i) { return in[i].select(1, t); };
    const at::Tensor written = at_token(4).unsqueeze(-1) * at_token(0);
    state = state * at_token(3).exp().unsqueeze(-1).unsqueeze(-1) +
            b.select(1, t).unsqueeze(-1) * written.unsqueeze(-2);
    out.push_back((state * c.select(1, t).unsqueeze(-1)).sum(-2) + in[5].unsqueeze(-1) * at_token(0));
  }
  return at::stack(out, 1);
}

/// Asks for results and gradients within `tolerance` of those of the recurrence in float64, for each head by
/// the largest number of that head.
void expect_recurrence(const Tensors& values, const Documents& documents, double tolerance) {
  Tensors in, exact;
  for (const at::Tensor& x : values) {
    in.push_back(x.detach().clone().requires_grad_());
    exact.push_back(x.detach().to(at::kDouble).requires_grad_());
  }
  const at::Tensor out = mamba2_scan(named(in), documents);
  const auto formula = [&](const Tensors& part) {
    return recurrence({part[0], part[1], part[2], part[3], part[4], exact[5]});
  };
  const at::Tensor expected =
      documents.packed() ? by_document(documents, {exact.begin(), exact.end() - 1}, formula) : formula(exact);
  const at::Tensor d_out = numbers({out.size(0), out.size(1), kHeads, kWidth}, at::kFloat, 9);
  out.backward(d_out.to(out.scalar_type()));
  expected.backward(d_out.to(out.scalar_type()).to(at::kDouble));
  const auto expect_near = [&](const at::Tensor& found, const at::Tensor& wanted, std::size_t number) {
    EXPECT_TRUE(found.isfinite().all().item<bool>()) << number;
    for (std::int64_t head = 0; number < 6 && head < found.size(found.dim() > 1 ? 2 : 0); ++head) {
      const std::int64_t dim = found.dim() > 1 ? 2 : 0;
      const at::Tensor of_head = wanted.select(dim, head);
      const double largest = std::max(of_head.abs().max().item<double>(), 1e-20);
      const double error = (found.select(dim, head).to(at::kDouble) - of_head).abs().max().item<double>();
      EXPECT_LE(error, tolerance * largest) << "tensor " << number << ", head " << head;
    }
  };
  expect_near(out.detach(), expected.detach(), 0);
  for (std::size_t i = 0; i < in.size(); ++i) expect_near(in[i].grad(), exact[i].grad(), i);
}

TEST(Mamba2Scan, matches_the_recurrence_token_by_token_for_decays_of_any_size) {
  for (const std::int64_t length : {1, 63, 64, 65, 1000})
    for (const std::int64_t groups : {1, 2}) {
      SCOPED_TRACE(length);
      expect_recurrence(inputs(length, groups, at::kFloat), {}, 1e-4);
    }
}

TEST(Mamba2Scan, carries_a_state_over_a_thousand_tokens) {
  Tensors in = inputs(1000, 2, at::kFloat);
  in[3] = at::full_like(in[3], -1e-4F);
  expect_recurrence(in, {}, 1e-4);
}

TEST(Mamba2Scan, of_packed_documents_is_that_of_each_alone) {
  for (const std::int64_t length : {10, 64, 210})
    expect_recurrence(inputs(length, 2, at::kFloat), packed_documents(length), 1e-4);
}

TEST(Mamba2Scan, follows_it_in_bfloat16) { expect_recurrence(inputs(100, 2, at::kBFloat16), {}, 0.02); }

TEST(Mamba2Scan, decay_that_forgets_everything_gives_finite_gradients) {
  Tensors in = inputs(130, 2, at::kFloat);
  in[3] = at::full_like(in[3], -2000.0F);
  expect_recurrence(in, {}, 1e-4);
}

TEST(Mamba2Scan, of_one_token_then_three_then_the_rest_is_that_of_the_whole) {
  const Tensors in = inputs(150, 2, at::kFloat);
  at::Tensor state = at::zeros({2, 2, kState, kHeads / 2 * kWidth});
  Tensors outs;
  std::int64_t begin = 0;
  for (const std::int64_t count : {1, 3, 146}) {
    Tensors part;
    for (const at::Tensor& x : in) part.push_back(x.dim() == 1 ? x : x.narrow(1, begin, count));
    outs.push_back(continue_mamba2_scan(named(part), state));
    begin += count;
  }
  const at::Tensor whole = mamba2_scan(named(in));
  EXPECT_LE((at::cat(outs, 1) - whole).abs().max().item<float>(), 1e-4F * whole.abs().max().item<float>());
}

}  // namespace
}  // namespace sluice::ops
