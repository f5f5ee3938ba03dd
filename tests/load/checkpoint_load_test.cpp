#include "load/checkpoint_load.hpp"

#include "comm/solo_communicator.hpp"
#include "export/synthesize.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

using test::test_world;
namespace fs = std::filesystem;

/// A model of all ranks, and what a load of it asks for.
class CheckpointLoad : public testing::Test {
 protected:
  void SetUp() override {
    if (test_world().rank() == 0)
      synthesize_checkpoint(keys_, model(), {.standard_deviation = 0.02F, .seed = 3});
    test_world().barrier();
  }
  [[nodiscard]] fs::path model() const { return directory_ / "model"; }
  [[nodiscard]] LoadRequest request() const {
    return {model(), keys_, shards_, {.readers = ReaderAssignment::all(test_world().size())}};
  }

  test::SharedDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of({});
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_{layouts_, {test_world().size(), 1}};
};

TEST_F(CheckpointLoad, is_planned_alone_as_all_ranks_plan_it) {
  const LoadPlan together = plan_load(test_world(), request()).plan;
  SoloCommunicator self;
  EXPECT_EQ(plan_load(self, request()).plan.digest(), together.digest());
  EXPECT_EQ(together.sent_bytes(0), 0);
}

TEST_F(CheckpointLoad, fills_the_arena_tells_of_it_and_verifies) {
  const PlannedLoad planned = plan_load(test_world(), request());
  ShardArena weights(shards_, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights");
  int told = 0;
  const CheckpointLoadReport report =
      load_checkpoint(test_world(), planned, model(), &weights,
                      {.verify = VerifyOptions(), .loaded = [&](const LoadReport&) { ++told; }});
  EXPECT_EQ(told, 1);
  EXPECT_EQ(report.load.ranks.size(), static_cast<std::size_t>(test_world().size()));
  ASSERT_TRUE(report.verify.has_value());
  EXPECT_EQ(report.verify->read_bytes, planned.plan.read_bytes());
}

TEST_F(CheckpointLoad, verifies_nothing_unless_asked) {
  const PlannedLoad planned = plan_load(test_world(), request());
  ShardArena weights(shards_, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights");
  EXPECT_FALSE(load_checkpoint(test_world(), planned, model(), &weights, {}).verify.has_value());
}

TEST_F(CheckpointLoad, of_a_missing_directory_fails_on_every_rank) {
  LoadRequest missing = request();
  missing.directory = "/nonexistent/model";
  const std::string error = "65: /nonexistent/model: no such directory";
  EXPECT_EQ(test::error_of([&] { static_cast<void>(plan_load(test_world(), missing)); }), error);
  SoloCommunicator self;
  EXPECT_EQ(test::error_of([&] { static_cast<void>(plan_load(self, missing)); }), error);
}

}  // namespace
}  // namespace sluice
