#include "job/launch/job_end.hpp"

#include "job/launch/host_network.hpp"
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
  EXPECT_TRUE(contains(report, "h1 (rank 0)")) << report;
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
  for (const char* part : {"h3 (rank 2)", "step 41/300", "step 40, 2026-11-27", "bring h3 back"})
    EXPECT_TRUE(contains(report, part)) << part << report;
  EXPECT_EQ(end_code(end), 70);
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
