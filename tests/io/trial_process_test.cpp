#include "io/trial_process.hpp"

#include "base/clock.hpp"
#include "support/expect_error.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(TrialProcess, passes_on_what_is_found_and_nothing_else) {
  int looked = 0;
  try_in_child("t.h5", [&] { ++looked; });
  EXPECT_EQ(looked, 0) << "what happens in the child stays there";
  test::expect_error(ExitCode::kIo, {"disk failed"},
                     [] { try_in_child("t.h5", [] { fail(ExitCode::kIo, "disk failed"); }); });
}

TEST(TrialProcess, survives_a_crash) {
  test::expect_error(ExitCode::kBadData, {"t.h5 is damaged", "crashed"},
                     [] { try_in_child("t.h5", [] { std::raise(SIGSEGV); }); });
  test::expect_error(ExitCode::kBadData, {"t.h5 is damaged", "ended the process"},
                     [] { try_in_child("t.h5", [] { std::_Exit(3); }); });
}

TEST(TrialProcess, a_signal_from_outside_says_nothing_of_the_file) {
  test::expect_error(ExitCode::kTooLittle, {"t.h5", "from outside"},
                     [] { try_in_child("t.h5", [] { std::raise(SIGKILL); }); });
}

TEST(TrialProcess, ends_what_has_no_end) {
  const Stopwatch watch;
  test::expect_error(ExitCode::kBadData, {"t.h5 is damaged", "within 0.3 s"}, [] {
    try_in_child("t.h5",
                 [] {
                   for (std::atomic<int> turns = 0;;) turns.fetch_add(1);
                 },
                 {.seconds = 0.3});
  });
  EXPECT_LT(watch.seconds(), 60);  // a guard against hanging
}

TEST(TrialProcess, gives_no_memory_without_end) {
#ifdef SLUICE_ADDRESS_SANITIZER
  constexpr const char* kFound = "ended the process";  // it does, where others throw
#else
  constexpr const char* kFound = "wanted more than 64 MiB";
#endif
  test::expect_error(ExitCode::kBadData, {"t.h5 is damaged", kFound}, [] {
    try_in_child("t.h5", [] { const std::vector<char> taken(std::size_t{1} << 33); },
                 {.extra_bytes = 64 << 20});
  });
}

}  // namespace
}  // namespace sluice
