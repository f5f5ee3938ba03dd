// job.kind = "generate", and the command of that name: loads the weights, then answers prompts, some at a time.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=generate --set generate.prompts=prompts.jsonl

#include "generate/generator.hpp"
#include "generate_report.hpp"
#include "job/job.hpp"
#include "job/weights.hpp"
#include "ops/runtime/library.hpp"
#include "plan/answer_memory.hpp"

namespace sluice {
namespace {

GenerationOptions options_of(const JobContext& context) {
  const GenerateSettings& settings = context.config().generate;
  GenerationOptions options;
  options.sampler = {.temperature = settings.temperature,
                     .top_k = settings.top_k,
                     .top_p = settings.top_p,
                     .min_p = settings.min_p,
                     .repetition_penalty = settings.repetition_penalty,
                     .seed = static_cast<std::uint64_t>(settings.seed)};
  options.max_tokens = settings.max_tokens;
  options.pass_tokens = settings.pass_tokens;
  if (!settings.ignore_eos) options.end_tokens = read_end_tokens(context.config().model.path);
  return options;
}

void generate_answers(JobContext& context) {
  const JobConfig& config = context.config();
  const ModelDescription& model = context.blueprint.model;
  const std::int64_t positions = usable_positions(model.config, config.generate.positions);
  const GenerationOptions options = options_of(context);
  GenerateReport report(context, positions);
  const Weights weights = make_weights(context);

  context.comm.set_deadline("step", config.deadline.step_seconds);
  CachedForward forward(context.comm, model.config, model.manifest, weights.arena,
                        answer_slots(config.generate.sequences, context.comm.size()), positions,
                        weights.offload.get());
  if (weights.offload) weights.offload->page();
  context.directory.set_status("generating");
  generate(forward, report.requests(), options,
           [&](std::size_t request, std::int64_t token) { return report.take_token(request, token); },
           [&](const Generation& answer) { report.take_answer(answer); });
  report.finish();
}

void run_generate(JobContext& context) {
  ops::with_plain_errors([&] { generate_answers(context); });
}

const JobRegistration kGenerate(JobKind::kGenerate, {.run = run_generate, .start = ops::start_library});

}  // namespace
}  // namespace sluice
