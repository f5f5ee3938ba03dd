#include "report/report_page.hpp"

#include "metrics/segments.hpp"
#include "report/metrics_file.hpp"
#include "support/temporary_directory.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <span>

namespace sluice {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;
using test::write_metrics;

ReportRun run_of(const TemporaryDirectory& directory, const std::string& name = "run") {
  return {name, JoinedMetrics(existing_segments(directory / "metrics.h5"))};
}

std::string page_with(const ReportRun& run) { return report_page(std::span(&run, 1)); }

/// What the page's script reads.
json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(ReportPage, holds_every_step_of_a_short_run) {
  const TemporaryDirectory directory;
  MetricsHeader header = test::header_for(64);
  header.held_out_files = 2;
  write_metrics(directory / "metrics.h5", 1, 4, header, [](TrainRow& row) {
    if (row.step % 2 == 1) row.held_out_loss = {std::nan(""), std::nan("")};
  });
  ReportRun run = run_of(directory);
  run.held_out_files = {"book.h5"};
  const json data = data_of(page_with(run))["runs"][0];
  EXPECT_EQ(data["steps"], json({1, 2, 3, 4}));
  EXPECT_EQ(data["bucket"], 1);
  EXPECT_EQ(data["series"]["loss"]["mean"], json({1.0, 0.5, 0.333333, 0.25}));
  EXPECT_FALSE(data["series"]["loss"].contains("low"));
  EXPECT_EQ(data["held_out"][0], json({{"name", "book.h5"}, {"steps", {2, 4}}, {"values", {3.5, 3.5}}}));
  EXPECT_EQ(data["held_out"][1]["name"], "file 1");
  EXPECT_EQ(data["phases"]["backward"], json({0.2, 0.2, 0.2, 0.2}));
  EXPECT_EQ(data["memory"]["planned"], json({100, 200}));
  EXPECT_EQ(data["memory"]["growth"], json({5, 6}));
  EXPECT_EQ(data["memory"]["peak"], json({4, 40}));
  EXPECT_EQ(data["experts"]["cells"][0], "WgmgWgmgWgmgWgmg");
  EXPECT_EQ(data["series"]["busiest_expert"]["mean"], json({2.75, 2.75, 2.75, 2.75}));
}

TEST(ReportPage, shows_a_run_without_steps_beside_others) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 2);
  ReportRun evaluation{"evaluation", JoinedMetrics({})};
  evaluation.facts = {{"loss", "2.5"}};
  evaluation.documents = {{"3", "7", "2.5", "12.2"}};
  std::vector<ReportRun> runs;
  runs.push_back(run_of(directory));
  runs.push_back(std::move(evaluation));
  const json data = data_of(report_page(runs))["runs"];
  EXPECT_EQ(data[0]["steps"].size(), 2U);
  EXPECT_EQ(data[1]["steps"].size(), 0U);
  EXPECT_TRUE(data[1]["series"].empty());
  EXPECT_EQ(data[1]["documents"], json({{"3", "7", "2.5", "12.2"}}));
}

TEST(ReportPage, takes_texts_of_files_as_texts) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 1);
  const std::string hostile = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\xff";
  ReportRun run = run_of(directory, hostile);
  run.facts = {{hostile, hostile}};
  run.job = run.notes.emplace_back(hostile);
  run.held_out_files = {hostile};
  run.checkpoints = {{hostile}};
  run.samples = {{1, hostile, hostile}};
  const std::string page = page_with(run);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  const json data = data_of(page)["runs"][0];
  EXPECT_EQ(data["job"], hostile.substr(0, hostile.size() - 1) + "\xef\xbf\xbd");
  EXPECT_EQ(data["samples"][0][2], data["job"]);
}

TEST(ReportPage, loads_nothing) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 1);
  const std::string page = page_with(run_of(directory));
  EXPECT_NE(page.find("content=\"default-src 'none'; "), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find(" src="), std::string::npos);
  EXPECT_EQ(page.find("url("), std::string::npos);
}

TEST(ReportPage, of_a_long_run_is_thinned_to_two_megabytes) {
  const TemporaryDirectory directory;
  constexpr std::int64_t kSteps = 10'000;
  MetricsHeader header = test::header_for(kSteps);
  header.held_out_files = 1;
  write_metrics(directory / "metrics.h5", 1, kSteps, header, [](TrainRow& row) {
    row.loss = row.step == 5000 ? 1e6 : std::sin(static_cast<double>(row.step));
  });
  std::vector<ReportRun> runs;
  for (int i = 0; i < 12; ++i) {
    runs.push_back(run_of(directory));
    runs.back().job = std::string(1'000'000, 'x');
    runs.back().samples = {1000, {1, "id", std::string(10'000, 'y')}};
  }
  const std::string page = report_page(runs);
  EXPECT_LT(std::ssize(page), kMostPageBytes);
  const json one = data_of(report_page(std::span(runs).first(1)))["runs"][0];
  EXPECT_EQ(one["steps"].size(), 1000U);
  EXPECT_EQ(one["bucket"], 10);
  EXPECT_EQ(one["series"]["loss"]["high"][499], 1e6);  // no spike is lost
  EXPECT_LE(one["held_out"][0]["steps"].size(), 1000U);
  EXPECT_EQ(one["held_out"][0]["steps"].back(), kSteps) << "the last evaluation is there";
}

}  // namespace
}  // namespace sluice
