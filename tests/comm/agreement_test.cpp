#include "comm/agreement/agreement.hpp"
#include "support/mpi_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A claim of 10 000 tensors (several rounds) and a few job keys.
AgreementClaim usual_claim() {
  AgreementClaim claim;
  AgreementTopic& tensors = claim.topics.emplace_back();
  tensors.name = "tensor";
  for (int i = 0; i < 10'000; ++i)
    tensors.entries.push_back({"layers." + std::to_string(i), "[8, 64] bfloat16"});
  AgreementTopic& keys = claim.topics.emplace_back();
  keys.name = "job key";
  keys.entries = {{"train.steps", "100"}, {"data.seed", "0"}};
  return claim;
}

class Agreement : public testing::Test {
 protected:
  Communicator& world_ = test::test_world();
  int last_ = world_.size() - 1;
  bool is_last_ = world_.rank() == last_ && world_.size() > 1;
  AgreementClaim claim_ = usual_claim();

  [[nodiscard]] AgreementResult agree_now() const { return agree(world_, claim_); }
  /// "rank 0" or "ranks 0, 1": all but the last.
  [[nodiscard]] std::string others() const { return world_.size() == 2 ? "rank 0" : "ranks 0, 1"; }
  [[nodiscard]] std::string last() const { return "rank " + std::to_string(last_); }
  /// One rank cannot disagree with itself.
  void expect_disagreement(const AgreementResult& result, const std::string& line) const {
    if (world_.size() == 1) {
      EXPECT_EQ(result.code, ExitCode::kDone);
      EXPECT_EQ(result.report, "");
    } else {
      EXPECT_EQ(result.code, ExitCode::kInternal);
      EXPECT_THAT(result.report, HasSubstr(line));
    }
  }
};

TEST_F(Agreement, equal_claims_agree) {
  const AgreementResult result = agree_now();
  EXPECT_EQ(result.code, ExitCode::kDone);
  EXPECT_EQ(result.report, "");
}

TEST_F(Agreement, a_differing_value_is_named_with_the_ranks_that_have_it) {
  if (is_last_) claim_.topics[0].entries[7000].value = "[9, 64] bfloat16";
  const AgreementResult result = agree_now();
  expect_disagreement(
      result, "\n  tensor layers.7000: [8, 64] bfloat16 on " + others() + "; [9, 64] bfloat16 on " + last());
  EXPECT_THAT(result.report, Not(HasSubstr("job key")));
}

TEST_F(Agreement, an_entry_that_a_rank_lacks_does_not_shift_the_others) {
  if (is_last_) claim_.topics[0].entries.erase(claim_.topics[0].entries.begin() + 3);
  const AgreementResult result = agree_now();
  expect_disagreement(result, "tensor layers.3: [8, 64] bfloat16 on " + others() + "; absent on " + last());
  EXPECT_THAT(result.report, Not(HasSubstr("layers.4")));
}

TEST_F(Agreement, an_entry_that_only_the_last_rank_has_is_named) {
  if (is_last_) claim_.topics[1].entries.push_back({"train.extra", "1"});
  expect_disagreement(agree_now(), "job key train.extra: absent on " + others() + "; 1 on " + last());
}

TEST_F(Agreement, many_differences_are_counted_and_the_first_are_named) {
  if (is_last_) {
    for (auto& entry : claim_.topics[0].entries) entry.value = "[9]";
  }
  const AgreementResult result = agree_now();
  expect_disagreement(result, "tensor layers.4:");
  EXPECT_THAT(result.report, Not(HasSubstr("layers.5:")));
  expect_disagreement(result, "and 9995 more");
}

TEST_F(Agreement, the_order_of_entries_is_part_of_the_meaning) {
  if (is_last_) std::swap(claim_.topics[0].entries[5000], claim_.topics[0].entries[5001]);
  expect_disagreement(agree_now(),
                      "tensor number 5000: layers.5000 on " + others() + "; layers.5001 on " + last());
}

TEST_F(Agreement, a_failing_rank_is_the_cause_and_gives_the_code) {
  if (world_.rank() == last_)
    claim_ = {{},
              {{ExitCode::kBadData, "model.config_value"}, "model/config.json: 'hidden_size' is missing"}};
  const AgreementResult result = agree_now();
  EXPECT_EQ(result.code, ExitCode::kBadData);
  EXPECT_EQ(result.id.text(), "model.config_value");
  EXPECT_EQ(result.report,
            last() + " failed: model/config.json: 'hidden_size' is missing [model.config_value]");
}

TEST_F(Agreement, equal_failures_are_told_once) {
  claim_ = {{}, {ExitCode::kBadConfig, "line 3: unknown key"}};
  const AgreementResult result = agree_now();
  EXPECT_EQ(result.code, ExitCode::kBadConfig);
  EXPECT_THAT(result.report, HasSubstr("failed: line 3: unknown key"));
  EXPECT_EQ(result.report.find("failed"), result.report.rfind("failed"));
}

TEST_F(Agreement, a_failure_comes_before_the_disagreement_of_the_others) {
  if (world_.rank() == 0) claim_ = {{}, {ExitCode::kIo, "cannot read"}};
  if (is_last_) claim_.topics[1].entries[0].value = "200";
  const AgreementResult result = agree_now();
  EXPECT_EQ(result.code, ExitCode::kIo);
  EXPECT_THAT(result.report, StartsWith("rank 0 failed: cannot read"));
  const std::string line = "job key train.steps: 100 on rank 1; 200 on rank 2";
  EXPECT_EQ(result.report.find(line) != std::string::npos, world_.size() == 3);
}

TEST(AgreementTopic, the_digest_knows_where_a_key_ends) {
  EXPECT_NE((AgreementTopic{"t", {{"a", "bc"}}}.digest()), (AgreementTopic{"t", {{"ab", "c"}}}.digest()));
}

}  // namespace
}  // namespace sluice
