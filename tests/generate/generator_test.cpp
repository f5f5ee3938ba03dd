#include "generate/generator.hpp"

#include "generate/loaded_model.hpp"
#include "generate/reference.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace sluice {
namespace {

using Answers = std::map<std::size_t, Generation>;

/// A model on all ranks, with room for some sequences on each.
struct Model {
  Model(const std::string& name, std::int64_t slots, std::int64_t positions, int expert_parallel = 1)
      : comm(test::test_world()),
        model(comm, test::fixture(name), expert_parallel),
        binder(comm, model.description.config, model.description.manifest, model.weights),
        forward(binder, model.description.config, slots, positions) {}

  /// On rank 0.
  [[nodiscard]] Answers answers(const std::vector<GenerationRequest>& requests,
                                const GenerationOptions& options, const TokenListener& listener = {}) {
    Answers found;
    generate(forward, requests, options, listener, [&](const Generation& one) { found[one.request] = one; });
    return found;
  }

  Communicator& comm;
  test::LoadedModel model;
  StageBinder binder;
  CachedForward forward;
};

class GreedyText : public testing::TestWithParam<std::string> {};

/// Where the two best logits lie closer than both may differ from transformers' either is right: then that of
/// transformers is taken up.
TEST_P(GreedyText, is_that_of_transformers) {
  const test::GenerationReference reference(GetParam());
  constexpr double kClose = 2 * test::kLogitTolerance;
  Model model(GetParam(), 1, std::ssize(reference.tokens), test::drawn_expert_parallel(GetParam(), 1));
  for (std::int64_t known = 0; known < reference.count();) {
    std::vector<std::int64_t> prompt(reference.tokens.begin(),
                                     reference.tokens.begin() + test::kPrompt + known);
    const Answers found = model.answers(
        {{0, prompt}}, {.settings = {.max_tokens = reference.count() - known, .prefill_tokens = 64}});
    std::int64_t differs = reference.count();  // where, on rank 0
    if (model.comm.rank() == 0) {
      const std::vector<std::int64_t>& tokens = found.at(0).tokens;
      ASSERT_EQ(std::ssize(tokens), reference.count() - known);
      differs =
          std::mismatch(tokens.begin(), tokens.end(), reference.tokens.begin() + std::ssize(prompt)).first -
          tokens.begin() + known;
    }
    model.comm.broadcast(&differs, sizeof differs, 0).wait();
    if (differs == reference.count()) break;
    ASSERT_LT(reference.lead(differs), kClose) << "token " << differs;
    known = differs + 1;
  }
}

// One of each kind of cache; what the forward pass of each family finds is held token by token beside it.
INSTANTIATE_TEST_SUITE_P(Fixtures, GreedyText,
                         testing::Values("qwen3-moe-tiny", "deepseek_v3-tiny", "gpt_oss-tiny-mxfp4",
                                         "qwen3_5-moe-tiny"),
                         test::name_of_model);

std::vector<GenerationRequest> some_prompts() {
  std::vector<GenerationRequest> prompts;
  for (std::int64_t i = 0; i < 7; ++i) {
    prompts.push_back({i, {}});
    for (std::int64_t token = 0; token <= 3 * i; ++token)
      prompts.back().prompt.push_back((7 * i + 11 * token) % 500);
  }
  return prompts;
}

TEST(Generator, an_answer_is_the_same_in_any_company) {
  for (const double temperature : {0.0, 0.9}) {
    const GenerationOptions options{
        .settings = {
            .max_tokens = 20, .prefill_tokens = 16, .temperature = temperature, .top_k = 50, .seed = 3}};
    Model together("qwen3_5-moe-tiny", 2, 60), alone("qwen3_5-moe-tiny", 1, 60);
    const Answers found = together.answers(some_prompts(), options);
    for (std::size_t i = 0; i < some_prompts().size(); ++i) {
      const Answers expected = alone.answers({some_prompts()[i]}, options);
      if (together.comm.rank() != 0) continue;
      EXPECT_EQ(found.at(i).tokens, expected.at(0).tokens) << i;
      EXPECT_EQ(found.at(i).ending, Ending::kMaxTokens);
    }
  }
}

TEST(Generator, answers_end_where_they_must) {
  Model model("qwen3-tiny-tied", 2, 20);
  const std::vector<GenerationRequest> prompts{{0, {1, 2, 3}}, {1, {4, 5}}};
  const Answers whole = model.answers(prompts, {.settings = {.max_tokens = 10}});
  std::int64_t end = model.comm.rank() == 0 ? whole.at(0).tokens[4] : 0;
  model.comm.broadcast(&end, sizeof end, 0).wait();
  const Answers ended = model.answers(prompts, {.settings = {.max_tokens = 10}, .end_tokens = {end}});
  const Answers stopped = model.answers(prompts, {.settings = {.max_tokens = 10}},
                                        [](std::size_t request, std::int64_t) { return request == 1; });
  const Answers full = model.answers(prompts, {.settings = {.max_tokens = 100}});
  if (model.comm.rank() != 0) return;
  const std::vector<std::int64_t>& tokens = whole.at(0).tokens;
  EXPECT_EQ(ended.at(0).tokens, std::vector<std::int64_t>(tokens.begin(), std::ranges::find(tokens, end)));
  EXPECT_EQ(ended.at(0).ending, Ending::kEndToken);
  EXPECT_EQ(stopped.at(0).tokens, tokens);
  EXPECT_EQ(stopped.at(1).tokens.size(), 1U);
  EXPECT_EQ(stopped.at(1).ending, Ending::kStopped);
  EXPECT_EQ(full.at(0).tokens.size(), 20U - 3 + 1) << "the last token needs no position";
  EXPECT_EQ(full.at(0).ending, Ending::kPositions);
}

/// How many passes it takes rank 0's slot to answer, and the answer, which only rank 0 has.
struct Turn {
  std::int64_t passes = 0;
  std::vector<std::int64_t> answer;
};

Turn take_turn(Model& model, const std::vector<std::int64_t>& prompt, bool continues) {
  const GenerationOptions options{.settings = {.max_tokens = 6, .prefill_tokens = 4},
                                  .continues_sequences = continues};
  const std::vector<GenerationRequest> requests{{0, prompt}};
  Turn turn;
  generate(
      model.forward, requests, options, {}, [&](const Generation& one) { turn.answer = one.tokens; },
      [&] { return ++turn.passes == 0; });
  std::int64_t count = std::ssize(turn.answer);
  model.comm.broadcast(&count, sizeof count, 0).wait();
  turn.answer.resize(static_cast<std::size_t>(count));
  model.comm.broadcast(turn.answer.data(), count * std::int64_t{sizeof(std::int64_t)}, 0).wait();
  return turn;
}

TEST(Generator, a_conversation_goes_on_where_it_was) {
  for (const auto* const name : {"qwen3-tiny-tied", "qwen3_5-moe-tiny"}) {
    Model model(name, 1, 40), fresh(name, 1, 40);
    std::vector<std::int64_t> said{3, 14, 15, 92, 65, 35, 89, 79, 32};
    const Turn first = take_turn(model, said, true);
    EXPECT_EQ(first.passes, 3 + 5)
        << "nine tokens, four at a time, then each token of the answer but the last";
    said.insert(said.end(), first.answer.begin(), first.answer.end());
    said.insert(said.end(), {38, 46, 26});
    const Turn second = take_turn(model, said, true);
    EXPECT_EQ(second.passes, 1 + 5) << "the answer's last token and three more";
    const Turn anew = take_turn(fresh, said, false);
    EXPECT_EQ(anew.passes, 5 + 5);
    EXPECT_EQ(second.answer, anew.answer) << name;

    said.resize(12);  // another answer than was given
    said.insert(said.end(), {1, 2, 3, 4, 5, 6});
    const Turn other = take_turn(model, said, true);
    const bool has_states = name != std::string("qwen3-tiny-tied");
    EXPECT_EQ(other.passes, (has_states ? 5 : 2) + 5) << "states cannot be taken back";
    EXPECT_EQ(other.answer, take_turn(fresh, said, false).answer) << name;
  }
}

TEST(Generator, ends_on_all_ranks_when_one_is_asked_to) {
  Model model("qwen3-tiny-tied", 2, 20);
  std::size_t answered = 0;
  std::int64_t passes = 0;
  const bool is_done = generate(
      model.forward, some_prompts(), {.settings = {.max_tokens = 5}}, {},
      [&](const Generation&) { ++answered; },
      [&] { return ++passes == 3 && model.comm.rank() == model.comm.size() - 1; });
  EXPECT_FALSE(is_done);
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(answered, 0U);
}

}  // namespace
}  // namespace sluice
