#include "report/report_page.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "report/page_assets.hpp"
#include "report/run_json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

using nlohmann::json;

/// JSON that can stand in a script element: nothing in it ends the element or begins another. The one place
/// where texts of files become part of HTML.
std::string inline_json(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

/// HTML page with its data; its policy keeps a browser from loading anything, whatever the page holds.
std::string page_of(const json& data) {
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>sluice report</title>
<style>
{}</style>
</head>
<body>
<main id="page"></main>
<noscript>This page draws its charts with a script of its own, which this browser does not run.</noscript>
<script type="application/json" id="data">{}</script>
<script>
{}</script>
</body>
</html>
)",
                     kPageStyle, inline_json(data), kPageScript);
}

json data_of(std::span<const ReportRun> runs, const PageDetail& detail) {
  json list = json::array();
  for (const ReportRun& run : runs) list.push_back(run_json(run, detail));
  return {{"runs", list},
          {"made_by", fmt::format("sluice {} ({}), {}", version(), git_revision(), utc_now())}};
}

}  // namespace

std::string report_page(std::span<const ReportRun> runs) {
  SLUICE_ASSERT(!runs.empty(), "a report needs at least one run");
  const auto count = std::ssize(runs);
  PageDetail detail{std::clamp<std::int64_t>(4000 / count, 50, 1000), 400'000 / count, 200'000 / count};
  for (; detail.points >= 10; detail.points /= 2, detail.expert_cells /= 2, detail.text_bytes /= 2) {
    std::string page = page_of(data_of(runs, detail));
    if (std::ssize(page) < kMostPageBytes) return page;
  }
  fail(ExitCode::kUsage, "{} runs are too many for one page of {} bytes; name fewer", count, kMostPageBytes);
}

}  // namespace sluice
