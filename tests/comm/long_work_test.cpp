#include "comm/long_work.hpp"

#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <chrono>
#include <functional>
#include <thread>

namespace sluice {
namespace {

using test::expect_error;
using test::test_world;

TEST(LongWork, of_rank_0_lasts_longer_than_the_deadline_of_those_who_wait_as_long_as_it_tells_of_itself) {
  test_world().set_deadline("test", 2.5);
  int pieces = 0;
  run_long_on_root(test_world(), [&](const std::function<void()>& tell) {
    for (; pieces < 40; ++pieces) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      tell();
    }
  });
  EXPECT_EQ(pieces, test_world().rank() == 0 ? 40 : 0);
  test_world().set_deadline("test", 60);
}

TEST(LongWork, an_error_is_the_same_on_every_rank) {
  expect_error(ExitCode::kBadData, {"line 3"}, [] {
    run_long_on_root(test_world(), [](const std::function<void()>& tell) {
      tell();
      fail(ExitCode::kBadData, "line 3 is no JSON");
    });
  });
}

}  // namespace
}  // namespace sluice
