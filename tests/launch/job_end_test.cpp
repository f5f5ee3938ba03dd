#include "launch/job_end.hpp"

#include "launch/host_network.hpp"
#include "launch/hosts_launch.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace sluice {
namespace {

const std::string kWords =
    "sluice: rank 0 of 3 failed, so the job ends with exit code 70:\n  step: waited for rank 2";

JobEnd job_end() { return {3, {}, {{0, "h1"}, {1, "h2"}, {2, "h3"}}, {}, {}}; }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(JobEnd, is_what_the_first_failing_rank_says_with_its_host) {
  JobEnd end = job_end();
  end.endings = {{0, 65, "h1", kWords}, {1, 70, "h2", "sluice: rank 1 of 3 failed"}};
  const std::string report = end_report(end);
  EXPECT_TRUE(report.starts_with(kWords)) << report;
  EXPECT_TRUE(contains(report, "host: h1 (rank 0), h3 (rank 2)")) << report;
  EXPECT_FALSE(contains(report, "rank 1")) << report;
  EXPECT_EQ(end_code(end), 65);
}

TEST(JobEnd, of_a_host_that_died_without_a_word_names_its_ranks_and_the_last_save) {
  const test::TemporaryDirectory run;
  std::ofstream(run / "status.json")
      << R"({"step": 41, "steps": 300, "saved_step": 40, "saved": "2026-11-27"})";
  JobEnd end = job_end();
  end.lost = {{"h3", {2}, 5, true}};
  end.run = run.path();
  const std::string report = end_report(end);
  EXPECT_TRUE(report.starts_with("sluice: rank 2 of 3 failed, so the job ends with exit code 70:\n"))
      << report;
  for (const char* part :
       {"[launch.lost_host]", "h3 (rank 2)", "step 41/300", "step 40, 2026-11-27", "bring h3 back"})
    EXPECT_TRUE(contains(report, part)) << part << report;
  EXPECT_EQ(end_code(end), 70);
}

TEST(JobEnd, tells_the_step_that_ranks_have_saved_where_the_launch_sees_no_newer_status) {
  const test::TemporaryDirectory run;
  JobEnd end = job_end();
  end.lost = {{"h3", {2}, 5, true}};
  end.run = run.path();
  end.saved_step = 40;
  EXPECT_TRUE(contains(end_report(end), "run: last save: step 40\n")) << end_report(end);
  std::ofstream(run / "status.json") << R"({"step": 31, "steps": 300, "saved_step": 30})";
  EXPECT_TRUE(contains(end_report(end), "run: last save: step 40\n")) << end_report(end);
  EXPECT_FALSE(contains(end_report(end), "31")) << end_report(end);
}

TEST(JobEnd, of_a_rank_that_a_signal_ended_names_rank_host_and_signal) {
  JobEnd end = job_end();
  end.death = RankDeath{.rank = 1, .host = "h2", .signal = 9};
  const std::string report = end_report(end);
  EXPECT_TRUE(report.starts_with("sluice: rank 1 of 3 failed, so the job ends with exit code 70:\n"))
      << report;
  for (const char* part : {"[launch.lost_rank]", "SIGKILL", "dmesg", "host: h2 (rank 1)", "to do: "})
    EXPECT_TRUE(contains(report, part)) << part << report;
  EXPECT_EQ(end_code(end), 70);
}

TEST(JobEnd, of_a_rank_that_ended_by_itself_has_that_rank_s_code) {
  JobEnd end = job_end();
  end.death = RankDeath{.rank = 1, .code = 3};
  EXPECT_TRUE(contains(end_report(end), "rank 1 of 3 failed, so the job ends with exit code 3:"));
  EXPECT_EQ(end_code(end), 3);
}

TEST(JobEnd, is_followed_by_a_restart_where_that_may_help) {
  JobEnd end = job_end();
  EXPECT_FALSE(may_start_again(end));
  end.lost = {{"h3", {2}, 5, true}};
  EXPECT_TRUE(may_start_again(end));
  end = job_end();
  end.death = RankDeath{.rank = 1, .signal = 9};
  EXPECT_TRUE(may_start_again(end));
  for (const int code : {64, 65, 71, 75, 76, 78}) {
    end.endings = {{0, code, "h1", kWords}};
    EXPECT_FALSE(may_start_again(end)) << code;
  }
  end.endings = {{0, 74, "h1", "cannot write to x: Input/output error (errno 5)"}};
  EXPECT_TRUE(may_start_again(end));
  end.endings.front().id = "io.no_space";
  EXPECT_FALSE(may_start_again(end));
}

TEST(RankDeath, is_read_from_what_mpirun_says) {
  const auto by_signal = parse_rank_death(
      "----\nmpirun noticed that process rank 2 with PID 0 on node h3 exited on signal 9 (Killed).\n----\n");
  ASSERT_TRUE(by_signal);
  EXPECT_EQ(by_signal->rank, 2);
  EXPECT_EQ(by_signal->host, "h3");
  EXPECT_EQ(by_signal->signal, 9);
  const auto by_code = parse_rank_death(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be "
      "terminated. The first process to do so was:\n\n  Process name: [[51711,1],1]\n  Exit code:    65\n");
  ASSERT_TRUE(by_code);
  EXPECT_EQ(by_code->rank, 1);
  EXPECT_EQ(by_code->signal, 0);
  EXPECT_EQ(by_code->code, 65);
  EXPECT_FALSE(parse_rank_death("There are not enough slots available in the system"));
}

TEST(RankDeath, is_read_from_what_prterun_of_open_mpi_5_and_6_says) {
  // The texts "prun:proc-aborted-strsignal" and "prun:non-zero-exit" of PRRTE 3.0 and 4.1.
  const auto by_signal = parse_rank_death(
      "prterun noticed that process rank 3 with PID 411 on node h2 exited on\nsignal 9 (Killed).\n");
  ASSERT_TRUE(by_signal);
  EXPECT_EQ(by_signal->rank, 3);
  EXPECT_EQ(by_signal->host, "h2");
  EXPECT_EQ(by_signal->signal, 9);
  const auto by_code = parse_rank_death(
      "prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be "
      "terminated. The first process to do so was:\n\n   Process name: [prterun-my-box-2-411@1,12]\n"
      "   Exit code:    74\n");
  ASSERT_TRUE(by_code);
  EXPECT_EQ(by_code->rank, 12);
  EXPECT_EQ(by_code->code, 74);
}

TEST(Restarts, wait_twice_as_long_each_time_and_a_minute_at_most) {
  EXPECT_EQ(restart_delay(1), 2);
  EXPECT_EQ(restart_delay(2), 4);
  EXPECT_EQ(restart_delay(100), 60);
}

TEST(JobEnd, is_nothing_where_no_rank_has_spoken_and_every_host_answers) {
  EXPECT_EQ(end_report(job_end()), "");
  EXPECT_EQ(end_code(job_end()), 0);
}

TEST(HostNetwork, is_that_of_the_address_a_name_resolves_to) {
  const std::vector<std::string> several{"172.17.0.1/16", "10.1.2.3/24"};
  EXPECT_EQ(networks_of({{"10.1.2.3", several}, {"10.1.2.4", {"10.1.2.4/24"}}}), "10.1.2.0/24");
  EXPECT_EQ(networks_of({{"10.1.2.3", several}, {"10.9.0.4", {"10.9.0.4/16"}}}), "10.1.2.0/24,10.9.0.0/16");
  EXPECT_EQ(networks_of({{"10.1.2.9", several}}), "");
}

}  // namespace
}  // namespace sluice
