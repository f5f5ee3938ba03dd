#include "train/stage_binder.hpp"

#include "model/small_model.hpp"
#include "ops/linear.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

TEST(StageBinder, messages_go_on_while_a_rank_computes_with_a_stage) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  const ShardPlan plan(model.layouts, {.world = comm.size()});
  const ShardArena weights(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
  StageBinder binder(comm, model.description.config, model.description.manifest, weights);
  const StageBinder::GatheredStage bound(binder, binder.stages().layers.front(), nullptr);

  // More pieces than are on their way at a time: somebody has to begin the later ones.
  constexpr std::int64_t kElements = 700'000;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()), kElements);
  const std::vector<float> ones(static_cast<std::size_t>(comm.size() * kElements), 1.0F);
  std::vector<float> sums(kElements);
  Work work = comm.reduce_scatter_sum(ones.data(), sums.data(), counts);
  const auto done = [&] { return std::ranges::count(sums, static_cast<float>(comm.size())) == kElements; };
  const at::Tensor x = at::ones({256, 256});
  const Stopwatch watch;
  while (!done() && watch.seconds() < 20) static_cast<void>(ops::linear(x, ops::Parameter{x, {}}));
  EXPECT_TRUE(done());
  work.wait();
}

}  // namespace
}  // namespace sluice
