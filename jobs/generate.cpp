// job.kind = "generate", and the command of that name: loads the weights, then answers prompts, some at a
// time.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=generate --set generate.prompts=prompts.jsonl

#include "compute_job.hpp"
#include "conversation.hpp"
#include "generate/generator.hpp"
#include "generate_report.hpp"
#include "generation.hpp"
#include "job/trace/step_trace.hpp"
#include "job/weights.hpp"
#include "ops/runtime/library.hpp"
#include "plan/answer_memory.hpp"
#include "process/console.hpp"
#include "train/phase_timer.hpp"
#include "train/stage_binder.hpp"

#include <optional>

namespace sluice {
namespace {

void answer_prompts(JobContext& context, CachedForward& forward, PhaseTimer& timer,
                    const GenerationOptions& options, GenerateReport& report) {
  report.begin();
  static_cast<void>(timer.take());
  // Answers to a job file's prompts are kept, so that it can go on; those to a command line's are not.
  std::optional<SignalWatch::StopRequest> stop;
  if (context.request == nullptr) stop.emplace(context.signals);
  const bool all = generate(
      forward, report.requests(), options,
      [&](std::size_t request, std::int64_t token) { return report.take_token(request, token); },
      [&](const Generation& answer) { report.take_answer(answer); },
      [&] {
        context.comm.set_deadline("step", context.config().deadline.step_seconds);
        return stop && stop->number() != 0;
      });
  if (!all) context.ending = ExitCode::kResumable;
  report.finish(timer.take());
}

/// Does what generate.products says, and says what comes of it if that is not the default.
void choose_products(const JobContext& context, StageBinder& binder) {
  if (context.config().generate.products == AnswerProducts::kExact) return;
  binder.views().use_products(ops::Products::kInt8);
  if (!context.is_root()) return;
  console::line("compute   {}", binder.weights().stored() == nullptr
                                    ? "exact: model.frozen_format keeps no weights as codes, which "
                                      "generate.products = \"int8\" is for"
                                    : ops::few_rows_text());
}

void generate_answers(JobContext& context) {
  const JobConfig& config = context.config();
  const ModelConfig& model = context.blueprint.model.config;
  const std::int64_t positions = usable_positions(model, config.generate.max_sequence_length);
  GenerationOptions options = generation_options(config);
  const bool is_conversation = context.request != nullptr && context.request->is_conversation;
  std::optional<GenerateReport> report;
  if (!is_conversation) report.emplace(context);
  if (report && report->is_done_already()) return;
  const Weights weights = make_weights(context);

  context.comm.set_deadline("step", config.deadline.step_seconds);
  StageBinder binder(context.links, model, context.blueprint.model.manifest, weights.arena);
  choose_products(context, binder);
  CachedForward forward(binder, model, answer_slots(config.generate.batch_sequences, context.comm.size()),
                        positions);
  context.directory.set_status("generating");
  StepTrace trace(context);
  options.passes = {[&](std::int64_t pass) { trace.before_step(pass); },
                    [&](std::int64_t pass) { trace.after_step(pass); }};
  if (is_conversation)
    converse(context, forward, options);
  else
    answer_prompts(context, forward, binder.timer(), options, *report);
  trace.finish(forward.passes());
}

const JobRegistration kGenerate(JobKind::kGenerate, computing<generate_answers>());

}  // namespace
}  // namespace sluice
