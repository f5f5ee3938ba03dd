#include "train_notes.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "ops/runtime/library.hpp"
#include "process/console.hpp"

#include <span>
#include <string>

namespace sluice {
namespace {

bool has_gpus(const JobContext& context) { return context.plan.machine.device.kind == DeviceKind::kCuda; }

}  // namespace

double product_rate_of_ranks(const JobContext& context) {
  context.comm.barrier();
  double rate = ops::product_rate(context.config().model.dtype, context.plan.machine.device.memory());
  context.comm.all_reduce_sum(std::span(&rate, 1));
  return rate;
}

void tell_processor(const JobContext& context, double product_rate) {
  log::debug("compute   {}, float32 by {}", ops::means_text(), ops::blas_text());
  if (!context.is_root()) return;
  if (has_gpus(context))
    return console::line("compute   {}; {:.3f} TFLOP/s of matmuls on all ranks",
                         device_text(context.plan.machine.device), product_rate / 1e12);
  console::line("compute   {}, float32 by {}, on rank 0; {:.3f} TFLOP/s of matmuls on all ranks",
                ops::means_text(), ops::blas_text(), product_rate / 1e12);
  if (ops::blas_has_own_threads() && ops::thread_count() > 1)
    log::warning(
        "this OpenBLAS keeps threads of its own, which compete with the {} compute threads of each rank: "
        "matmuls of float32 copies take longer. Install libopenblas0-openmp and choose it with "
        "update-alternatives, or set parallel.threads = 1 and start more ranks",
        ops::thread_count());
}

void log_phases(const PhaseSeconds& seconds) {
  std::string text;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    text += fmt::format("{}{} {:.2f} s", i == 0 ? "" : ", ", kPhaseNames[i], seconds[i]);
  log::debug("steps     {}", text);
}

void print_memory(const JobContext& context, const std::vector<RankMemory>& planned, const RankPeaks& peaks) {
  const auto peak = [](const std::vector<std::int64_t>& of_ranks, std::size_t rank) {
    return of_ranks.empty() ? "-" : format_mib(of_ranks[rank]);
  };
  std::vector<std::vector<std::string>> rows{{"memory"}};
  for (const auto& [name, bytes] : planned.front().parts())
    if (name != "staging") rows.front().emplace_back(name);
  rows.front().insert(rows.front().end(), {"planned", "measured", "process"});
  if (has_gpus(context)) rows.front().emplace_back("GPU");
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : planned[rank].parts())
      if (name != "staging") row.push_back(format_mib(bytes));
    row.push_back(format_mib(planned[rank].compute_total()));
    row.push_back(peak(peaks.growth, rank));
    row.push_back(peak(peaks.resident, rank));
    if (has_gpus(context)) row.push_back(peak(peaks.device, rank));
  }
  console::write_line(console::table(rows));
  console::line(
      "  (measured: peak above what the process took before the model; process: its peak as a whole, with "
      "code and libraries, {} before the model on rank 0)",
      format_mib(context.baseline.anonymous_bytes + context.baseline.file_bytes +
                 context.baseline.shared_bytes));
  if (has_gpus(context))
    console::line("  (of main memory both; GPU: the most that was taken of it after a step, by whomever)");
}

}  // namespace sluice
