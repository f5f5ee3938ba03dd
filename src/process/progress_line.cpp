#include "process/progress_line.hpp"

#include "base/bytes.hpp"
#include "process/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole < 120 ? fmt::format("{} s", whole) : fmt::format("{} min {} s", whole / 60, whole % 60);
}

}  // namespace

LineStyle line_style_of_console() {
  return console::is_terminal() ? LineStyle::kRedrawn : LineStyle::kAppended;
}

void ProgressLine::operator()(std::int64_t done_bytes, std::int64_t total_bytes) {
  console::raw(update(done_bytes, total_bytes, watch_.seconds()));
}

std::string ProgressLine::update(std::int64_t done_bytes, std::int64_t total_bytes, double seconds) {
  const bool finished = done_bytes >= total_bytes;
  const double interval = style_ == LineStyle::kRedrawn ? 0.2 : 10;
  if (!finished && seconds - last_ < interval) return "";
  last_ = seconds;

  const double speed = static_cast<double>(done_bytes) / std::max(seconds, 1e-9);
  std::string text = fmt::format("{}  {} of {}  {:.2f} GB/s", label_, format_bytes(done_bytes),
                                 format_bytes(total_bytes), speed * 1e-9);
  if (finished)
    text += fmt::format("  {:.1f} s", seconds);
  else if (done_bytes > 0)
    text += "  " + duration_text(static_cast<double>(total_bytes - done_bytes) / speed) + " left";
  if (style_ == LineStyle::kAppended) return text + '\n';
  return "\r\x1b[K" + text + (finished ? "\n" : "");
}

}  // namespace sluice
