#include "job/prepare/save_plan.hpp"

#include "checkpoint/step_directory.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(SavePlan, needs_room_for_the_checkpoints_that_are_kept_and_one_in_the_making) {
  const test::TemporaryDirectory directory;
  JobConfig config;
  config.checkpoint.path = directory / "steps";
  config.checkpoint.keep = 1;
  const auto free = static_cast<std::int64_t>(fs::space(directory.path()).available);
  require_room_for_steps(config, free / 10);
  const auto save_large_ones = [&] { require_room_for_steps(config, free / 10 * 7); };
  test::expect_error(ExitCode::kIo, {"checkpoint.path", "checkpoint.keep"}, save_large_ones);
  fs::create_directories(config.checkpoint.path / step_name(3));
  save_large_ones();  // the one that is there makes way
}

}  // namespace
}  // namespace sluice
