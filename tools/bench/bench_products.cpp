// What generate.products = "int8" changes in a model's answers: the distributions of the next token along a
// text, by the path that answers take, a token at a time, and the first difference of answers without a draw.
// A program like `sluice` whose job.kind = "evaluate" does that in one rank:
//
//   bench_products run job.toml --set job.kind=evaluate --set model.frozen_format=nf4
//
// Prints the mean and the largest Kullback-Leibler divergence of int8 from exact products over the sequences of
// data.tokens (train.steps of them at most), both losses, and for as many answers of generate.max_tokens
// tokens to the first 16 tokens of each sequence the token at which they part.
#include "compute_job.hpp"
#include "data/token_file.hpp"
#include "generate/cached_forward.hpp"
#include "job/weights.hpp"
#include "process/console.hpp"
#include "train/stage_binder.hpp"

#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {
namespace {

constexpr std::size_t kPrompt = 16;  // tokens of a prompt

/// A cache and how its products are computed.
class Path {
 public:
  Path(StageBinder& binder, const ModelConfig& model, std::int64_t positions, ops::Products products)
      : binder_(binder), forward_(binder, model, 1, positions), products_(products) {}

  void begin() { forward_.clear(0); }
  /// Log-probabilities of the token that follows.
  at::Tensor next(std::int64_t token) {
    binder_.views().use_products(products_);
    const std::vector<NewTokens> parts{{0, {token}}};
    return at::log_softmax(forward_.append(parts)[0].to(at::kDouble), 0);
  }
  /// The most probable tokens that follow a prompt.
  std::vector<std::int64_t> answer(std::span<const std::int64_t> prompt, std::int64_t tokens) {
    begin();
    std::vector<std::int64_t> answer;
    at::Tensor last;
    for (const std::int64_t token : prompt) last = next(token);
    while (std::ssize(answer) < tokens) {
      answer.push_back(last.argmax().item<std::int64_t>());
      last = next(answer.back());
    }
    return answer;
  }

 private:
  StageBinder& binder_;
  CachedForward forward_;
  ops::Products products_;
};

struct Sums {
  std::int64_t tokens = 0, equal = 0;
  double divergence = 0, largest = 0, exact_loss = 0, int8_loss = 0;
};

void compare_text(Path& exact, Path& int8, std::span<const std::int64_t> ids, Sums& sums) {
  exact.begin();
  int8.begin();
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const at::Tensor p = exact.next(ids[i]), q = int8.next(ids[i]);
    const double divergence = (p.exp() * (p - q)).sum().item<double>();
    sums.divergence += divergence;
    sums.largest = std::max(sums.largest, divergence);
    sums.exact_loss -= p[ids[i + 1]].item<double>();
    sums.int8_loss -= q[ids[i + 1]].item<double>();
    sums.equal += p.argmax().item<std::int64_t>() == q.argmax().item<std::int64_t>() ? 1 : 0;
    ++sums.tokens;
  }
}

/// Prints where two answers to a prompt part.
void compare_answers(Path& exact, Path& int8, std::span<const std::int64_t> prompt, std::int64_t tokens) {
  const std::vector<std::int64_t> a = exact.answer(prompt, tokens), b = int8.answer(prompt, tokens);
  const auto same = std::ranges::mismatch(a, b).in1 - a.begin();
  console::line("answers   {} of {} tokens are the same", same, tokens);
}

void compare(JobContext& context) {
  const JobConfig& config = context.config();
  const ModelConfig& model = context.blueprint.model.config;
  const TokenFile text = TokenFile::open(config.data.tokens, {.sequence_length = config.data.sequence_length,
                                                              .vocab_size = model.vocab_size,
                                                              .separator_token = {}});
  const Weights weights = make_weights(context);
  StageBinder binder(context.links, model, context.blueprint.model.manifest, weights.arena);
  const std::int64_t positions =
      std::max(config.data.sequence_length, static_cast<std::int64_t>(kPrompt) + config.generate.max_tokens);
  Path exact(binder, model, positions, ops::Products::kExact),
      int8(binder, model, positions, ops::Products::kInt8);
  Sums sums;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(config.data.sequence_length + 1));
  for (std::int64_t i = 0; i < std::min(text.sequence_count(), config.train.steps); ++i) {
    context.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
    text.read_sequence(i, ids);
    compare_text(exact, int8, ids, sums);
    compare_answers(exact, int8, std::span(ids).first(kPrompt), config.generate.max_tokens);
  }
  const auto tokens = static_cast<double>(sums.tokens);
  console::line("compute   {}", ops::few_rows_text());
  console::line(
      "int8 from exact over {} tokens: KL {:.6f} in the mean, {:.4f} at most; loss {:.5f}, exact {:.5f}; the "
      "most probable token is the same for {:.2f} %",
      sums.tokens, sums.divergence / tokens, sums.largest, sums.int8_loss / tokens, sums.exact_loss / tokens,
      100 * static_cast<double>(sums.equal) / tokens);
}

const JobRegistration kCompare(JobKind::kEvaluate, computing<compare>());

}  // namespace
}  // namespace sluice
