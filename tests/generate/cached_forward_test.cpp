#include "generate/cached_forward.hpp"

#include "generate/generator.hpp"
#include "generate/loaded_model.hpp"
#include "generate/reference.hpp"
#include "ops/buffers/host_values.hpp"
#include "plan/answer_memory.hpp"
#include "support/mpi_test.hpp"
#include "train/trainer.hpp"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace sluice {
namespace {

using test::fixture;

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

class CachedForwardOfModel : public testing::TestWithParam<std::string> {};

TEST_P(CachedForwardOfModel, finds_the_logits_of_transformers_token_by_token) {
  const test::GenerationReference expected(GetParam());
  Communicator& comm = test::test_world();
  const int expert_parallel = test::drawn_expert_parallel(GetParam(), 0);
  const test::LoadedModel model(comm, fixture(GetParam()), expert_parallel);
  StageBinder binder(comm, model.description.config, model.description.manifest, model.weights);
  CachedForward forward(binder, model.description.config, 1, std::ssize(expected.tokens));
  const bool has_tokens = comm.rank() == comm.size() - 1;  // the others take part without
  double largest = 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    std::vector<NewTokens> parts;
    if (has_tokens) parts.push_back({0, {expected.tokens[test::kPrompt - 1 + static_cast<std::size_t>(i)]}});
    if (has_tokens && i == 0) parts.front().ids = expected.prompt();
    const at::Tensor logits = forward.append(parts);
    if (has_tokens)
      largest = std::max(largest, largest_difference(ops::host_values<float>(logits), expected.row(i)));
  }
  EXPECT_LT(largest, test::kLogitTolerance) << "groups of " << expert_parallel;
}

TEST_P(CachedForwardOfModel, finds_the_logits_of_a_whole_pass_however_the_tokens_come) {
  const test::GenerationReference reference(GetParam());
  Communicator& comm = test::test_world();
  constexpr std::int64_t kLength = 100;
  const int expert_parallel = test::drawn_expert_parallel(GetParam(), 1);
  test::LoadedModel model(comm, fixture(GetParam()), expert_parallel);
  const ModelDescription& description = model.description;
  Trainer trainer(comm, description.config, description.manifest, model.weights,
                  {.sequence_length = kLength,
                   .train = {.batch_sequences = 1, .micro_batch_sequences = 1, .aux_loss_coefficient = 0}});
  Batch batch{comm.rank() == 0 ? 1 : 0, kLength};
  if (comm.rank() == 0) batch.ids.assign(reference.tokens.begin(), reference.tokens.begin() + kLength + 1);
  const at::Tensor whole = trainer.first_logits(batch);

  // Two sequences beside each other, the first in pieces, the second a token longer each time.
  CachedForward forward(trainer.binder(), description.config, 2, kLength);
  std::vector<at::Tensor> found;
  std::int64_t begin = 0;
  for (std::int64_t count : {1, 30, 2, 65, 1, 1}) {
    std::vector<NewTokens> parts;
    const auto ids = [&](std::int64_t first, std::int64_t n) {
      return std::vector<std::int64_t>(reference.tokens.begin() + first,
                                       reference.tokens.begin() + first + n);
    };
    if (comm.rank() == 0) {
      parts.push_back({1, ids(5, std::min<std::int64_t>(count, 3))});
      parts.push_back({0, ids(begin, count)});
    }
    const at::Tensor logits = forward.append(parts, CachedForward::Wanted::kAll);
    if (comm.rank() == 0) found.push_back(logits.narrow(0, logits.size(0) - count, count));
    begin += count;
  }
  if (comm.rank() != 0) return;
  EXPECT_LT(largest_difference(ops::host_values<float>(at::cat(found)), ops::host_values<float>(whole)),
            test::kLogitTolerance)
      << "groups of " << expert_parallel;
}

TEST_P(CachedForwardOfModel, the_plan_counts_what_its_cache_takes) {
  const ModelConfig model = describe_model(fixture(GetParam()), DType::kBFloat16).config;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AnswerMemory planned = plan_answers(model, {.sequences = 7, .positions = 33}, 3, dtype);
    EXPECT_EQ(SequenceCache(model, answer_slots(7, 3), 33, dtype, at::kCPU).bytes(), planned.cache);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CachedForwardOfModel, test::generated_models(), test::name_of_model);

}  // namespace
}  // namespace sluice
