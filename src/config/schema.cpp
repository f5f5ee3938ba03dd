#include "config/schema.hpp"

#include "config/table_list.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPiB = kGiB * 1024 * 1024;
constexpr double kWeekSeconds = 7 * 24 * 3600;

/// Adds the rows of one table: a key, its member of the table's struct, what it may hold, help, unit.
template <class Settings>
class TableBuilder {
 public:
  TableBuilder(std::string name, Settings JobConfig::*settings, std::string help)
      : table_{std::move(name), std::move(help), {}}, settings_(settings) {}

  template <class T, class Domain>
  TableBuilder& key(const char* key, T Settings::*member, const Domain& domain, const char* help,
                    const char* unit = "") {
    Field field{key_info(key, domain, help, unit, domain.spell(JobConfig().*settings_.*member)),
                table_.name,
                {},
                {},
                {}};
    if constexpr (requires { domain.columns(); }) field.columns = domain.columns();
    field.load = [domain, settings = settings_, member](const JobConfig& config) {
      return domain.spell(config.*settings.*member);
    };
    field.store = [domain, settings = settings_, member](const Value& value, JobConfig& config) {
      const std::optional<T> parsed = domain.parse(value);
      if (parsed) config.*settings.*member = *parsed;
      return parsed.has_value();
    };
    table_.fields.push_back(std::move(field));
    return *this;
  }

  [[nodiscard]] Table done() { return std::move(table_); }

 private:
  Table table_;
  Settings JobConfig::*settings_;
};

Table job_table() {
  return TableBuilder("job", &JobConfig::job, "What runs, and where its results go")
      .key("kind", &JobSettings::kind,
           Choice<JobKind>{{{"train", JobKind::kTrain},
                            {"load", JobKind::kLoad},
                            {"export", JobKind::kExport},
                            {"evaluate", JobKind::kEvaluate},
                            {"generate", JobKind::kGenerate}}},
           "train, load the weights only and report, load them and write them out again, say how well the "
           "model predicts the tokens, or answer prompts")
      .key("output", &JobSettings::output, Path{},
           "run directory, made if missing; relative to the current working directory")
      .key("overwrite", &JobSettings::overwrite, Flag{},
           "use a run directory that already holds a metrics file; else it is refused")
      .done();
}

Table model_table() {
  return TableBuilder("model", &JobConfig::model, "The model, a Hugging Face directory")
      .key(
          "path", &ModelSettings::path, Path{},
          "directory with config.json and safetensors files, or the directory of a run, or a saved step; relative to the "
          "current working directory")
      .key(
          "step", &ModelSettings::step,
          NamedInteger{{{"newest", kNewestStep}, {"best", kBestStep}}, 0, 1'000'000'000},
          "the saved step that is meant where path, adapter or lora.start names a run: the newest, the one with the lowest "
          "held-out loss, or a number")
      .key("dtype", &ModelSettings::dtype,
           Choice<DType>{{{"bfloat16", DType::kBFloat16}, {"float32", DType::kFloat32}}},
           "of gathered weights and matrix products; router, norms, softmax and loss are float32 in both")
      .key(
          "init", &ModelSettings::init,
          Choice<ModelInit>{{{"checkpoint", ModelInit::kCheckpoint}, {"random", ModelInit::kRandom}}},
          "read the weights, or draw them; random needs config.json alone and is the same for any rank count")
      .key("init_seed", &ModelSettings::init_seed, Integer{0, kAnyInteger}, "of random weights")
      .key(
          "adapter", &ModelSettings::adapter, Path{true},
          "directory of an adapter, as PEFT saves it, or of a run that trained one, or a saved step of it: the model computes "
          "with that adapter; to train one there is lora.start")
      .done();
}

Table parallel_table() {
  return TableBuilder("parallel", &JobConfig::parallel, "How ranks share the work")
      .key("expert_parallel", &ParallelSettings::expert_parallel, Integer{0, 65536},
           "0 = each rank owns whole experts and tokens travel; 1 = experts are sharded and gathered like "
           "dense weights; k = groups of k ranks own them, and the groups share each one's bytes")
      .key("threads", &ParallelSettings::threads, Integer{0, 4096},
           "compute threads of a rank; 0 = cores of the node divided by its ranks, at most OMP_NUM_THREADS")
      .done();
}

Table load_table() {
  return TableBuilder("load", &JobConfig::load, "How weights stream from files into shards")
      .key("readers", &LoadSettings::readers,
           Choice<Readers>{{{"rank0", Readers::kRank0}, {"node", Readers::kNode}, {"all", Readers::kAll}}},
           "who reads the files: rank 0 for all, one rank of each node for its node, or each rank its own "
           "part")
      .key("chunk", &LoadSettings::chunk_bytes, Bytes{64 * kKiB, kGiB},
           "one read; a rank stages a few chunks at a time, so larger ones cost memory on every rank",
           "bytes")
      .key("page_cache", &LoadSettings::page_cache,
           Choice<CachePolicy>{
               {{"auto", CachePolicy::kAuto}, {"keep", CachePolicy::kKeep}, {"drop", CachePolicy::kDrop}}},
           "what becomes of file pages once read; keep helps the next run, drop frees memory for this one")
      .key("verify", &LoadSettings::verify, Flag{},
           "read the files once more and compare them with what has arrived")
      .key("sink", &LoadSettings::sink,
           Choice<LoadSink>{{{"shards", LoadSink::kShards}, {"discard", LoadSink::kDiscard}}},
           "where the bytes go; discard lets go of them on arrival, to measure the stream alone")
      .key(
          "unified_memory", &LoadSettings::unified_memory, Flag{},
          "CPU and GPU share one memory: page cache counts as used, and page_cache = auto leaves none behind")
      .key("memory_limit", &LoadSettings::memory_limit_bytes, Bytes{0, kPiB},
           "growth above the shard that a rank may show while loading; 0 = no limit", "bytes")
      .done();
}

TableList<SourceSettings> source_list() {
  return TableList<SourceSettings>()
      .column("tokens", &SourceSettings::tokens, Path{},
              "HDF5 file as in data.tokens, which begins anew when all of its sequences were taken")
      .column("weight", &SourceSettings::weight, Real{1e-6, 1e6},
              "its share of the sequences of training, relative to the other sources'");
}

Table data_table() {
  return TableBuilder("data", &JobConfig::data, "The tokens to train on")
      .key(
          "tokens", &DataSettings::tokens, Path{true},
          "HDF5 file with the dataset tokens, needed to train, unless there are sources, and to evaluate, or text "
          "or rows of JSON, of which the job makes one; relative to the current working directory")
      .key("source", &DataSettings::source, source_list(),
           "token files that are mixed while training, each a table [[data.source]], in place of tokens")
      .key("sequence_length", &DataSettings::sequence_length, Integer{1, 1 << 20}, "of one sequence",
           "tokens")
      .key("seed", &DataSettings::seed, Integer{0, kAnyInteger}, "of the shuffle")
      .key("order", &DataSettings::order,
           Choice<DataOrder>{{{"shuffle", DataOrder::kShuffle}, {"sequential", DataOrder::kSequential}}},
           "of the sequences in training; the same global batches for any rank count")
      .key("separator_token", &DataSettings::separator_token,
           Integer{-1, std::numeric_limits<std::int32_t>::max()},
           "id that ends each document: no token sees or predicts one of another document; -1 = none, or "
           "where "
           "the file's dataset document_starts says")
      .key(
          "pack", &DataSettings::pack, Flag{},
          "put whole documents into the sequences of a training, as many as fit, in place of cutting the stream; each file "
          "needs its dataset document_starts")
      .key("pack_window", &DataSettings::pack_window, Integer{1, 1 << 24},
           "documents that are packed together, drawn from all of the file; 128 bytes each on rank 0",
           "documents")
      .key(
          "long_documents", &DataSettings::long_documents,
          Choice<LongDocuments>{{{"split", LongDocuments::kSplit},
                                 {"cut", LongDocuments::kCut},
                                 {"leave_out", LongDocuments::kLeaveOut}}},
          "of packed documents with more than sequence_length tokens: split into several, cut behind the first sequence, or "
          "left out")
      .done();
}

Table train_table() {
  return TableBuilder("train", &JobConfig::train, "The training loop")
      .key("steps", &TrainSettings::steps, Integer{1, 1'000'000'000}, "optimizer steps")
      .key("batch_sequences", &TrainSettings::batch_sequences, Integer{1, 1 << 20},
           "sequences of one step over all ranks, also in an evaluation")
      .key("micro_batch_sequences", &TrainSettings::micro_batch_sequences, Integer{1, 1 << 20},
           "sequences that a rank computes at once; more cost activation memory")
      .key("recompute", &TrainSettings::recompute,
           Choice<Recompute>{
               {{"layer", Recompute::kLayer}, {"none", Recompute::kNone}, {"all", Recompute::kAll}}},
           "layer runs each layer again in the backward pass, but not its attention; all runs that again, "
           "too; none keeps all activations")
      .key(
          "aux_loss_coefficient", &TrainSettings::aux_loss_coefficient, Real{kAuxLossOfFamily, 100},
          "weight of the load-balancing loss; 0 leaves it out, below 0 it is 0.001, or 0 for models that are trained without "
          "one, as those with correction biases are")
      .key(
          "aux_loss_scope", &TrainSettings::aux_loss_scope,
          Choice<BalancingScope>{{{"model", BalancingScope::kModel}, {"layer", BalancingScope::kLayer}}},
          "model balances experts over all layers together, as transformers does: layers that each use a few experts, but not "
          "the same ones, count as balanced; layer balances each layer by itself")
      .key(
          "router_z_loss", &TrainSettings::router_z_loss, Real{0, 100},
          "weight of the routers' z-loss, the mean over tokens and layers with experts of log(sum(exp(logits)))^2, which keeps "
          "logits small (1e-3 in ST-MoE); 0 leaves it out")
      .key(
          "router_bias_update", &TrainSettings::router_bias_update, Real{0, 1},
          "what a router's correction biases move by after each step: up for experts that fewer tokens of the whole batch "
          "have chosen than the mean, down for those with more; 0 = they stay")
      .key(
          "freeze", &TrainSettings::freeze, Texts{},
          "patterns of tensor names (* and ?) that are not trained: they cost no gradient and no state, and below the "
          "lowest layer that is trained there is no backward pass")
      .done();
}

Table lora_table() {
  return TableBuilder("lora", &JobConfig::lora,
                      "Low-rank adapters (LoRA), which are trained in place of the weights")
      .key("rank", &LoraSettings::rank, Integer{0, 1 << 16},
           "of each adapter, in fused experts of each expert's; 0 = no adapters, the weights are trained")
      .key("alpha", &LoraSettings::alpha, Real{0, 1e6},
           "what an adapter adds is multiplied by alpha / rank; 0 = alpha is the rank")
      .key("dropout", &LoraSettings::dropout, Real{0, 0.99},
           "of what goes into an adapter; none where routers or routed experts are adapted")
      .key(
          "targets", &LoraSettings::targets, Texts{},
          "the weights that are adapted: all-linear (projections of attention, linear attention, dense MLPs, routed and "
          "shared experts), linear-modules (the same without routed experts), module names as PEFT takes them, or patterns "
          "of tensor names (* and ?)")
      .key("rslora", &LoraSettings::rslora, Flag{}, "multiply by alpha / sqrt(rank) instead")
      .key("seed", &LoraSettings::seed, Integer{0, kAnyInteger},
           "of the values it begins with, and of dropout")
      .key(
          "start", &LoraSettings::start, Path{true},
          "directory of an adapter, as PEFT saves it, or of a run that trained one, or a saved step of it, to begin with: its "
          "rank, alpha and targets then hold; \"\" = from zero")
      .done();
}

Table optimizer_table() {
  return TableBuilder("optimizer", &JobConfig::optimizer, "The weight update")
      .key(
          "kind", &OptimizerSettings::kind,
          Choice<OptimizerKind>{{{name_of(OptimizerKind::kAdamW), OptimizerKind::kAdamW},
                                 {name_of(OptimizerKind::kLion), OptimizerKind::kLion},
                                 {name_of(OptimizerKind::kAdafactor), OptimizerKind::kAdafactor}}},
          "the update rule: torch.optim.AdamW, Lion, or torch.optim.Adafactor, whose learning rate is relative to the "
          "size of the weights")
      .key("learning_rate", &OptimizerSettings::learning_rate, Real{0, 100}, "after warm-up")
      .key("betas", &OptimizerSettings::betas, Betas{}, "decay rates of the moments; Adafactor has its own")
      .key("eps", &OptimizerSettings::eps, Real{1e-30, 1}, "AdamW's: added to the root of the second moment")
      .key("weight_decay", &OptimizerSettings::weight_decay, Real{0, 100},
           "of tensors with two or more dimensions")
      .key("max_grad_norm", &OptimizerSettings::max_grad_norm, Real{0, 1e9},
           "gradient norm above which gradients are scaled down; 0 = never")
      .key(
          "clip", &OptimizerSettings::clip,
          Choice<ClipRule>{{{"global", ClipRule::kGlobal}, {"unit", ClipRule::kUnit}}},
          "whose norm max_grad_norm bounds: that of all gradients together, or of each matrix by itself, of fused "
          "experts each expert's; with gradients = \"release\" global costs a second backward pass")
      .key(
          "state", &OptimizerSettings::state,
          Choice<StateFormat>{{{name_of(StateFormat::kFloat32), StateFormat::kFloat32},
                               {name_of(StateFormat::kBFloat16), StateFormat::kBFloat16},
                               {name_of(StateFormat::kInt8), StateFormat::kInt8},
                               {name_of(StateFormat::kFactored), StateFormat::kFactored}}},
          "of the moments: 4, 2 or 1 bytes each, or Adafactor's row and column means; router, norms and vectors are "
          "float32 in any case")
      .key(
          "master", &OptimizerSettings::master,
          Choice<MasterFormat>{{{name_of(MasterFormat::kFloat32), MasterFormat::kFloat32},
                                {name_of(MasterFormat::k24Bit), MasterFormat::k24Bit},
                                {name_of(MasterFormat::kNone), MasterFormat::kNone}}},
          "bits kept beside bfloat16 weights: 16 that make them float32, 8, or none; with fewer than 16 weights are "
          "rounded stochastically")
      .key(
          "gradients", &OptimizerSettings::gradients,
          Choice<GradientMode>{{{name_of(GradientMode::kFloat32), GradientMode::kFloat32},
                                {name_of(GradientMode::kBFloat16), GradientMode::kBFloat16},
                                {name_of(GradientMode::kRelease), GradientMode::kRelease}}},
          "kept until the update in 4 or 2 bytes, or not at all: each layer is updated as soon as its gradient is "
          "there")
      .key("release_gradients", &OptimizerSettings::release_gradients, Flag{},
           "an earlier name: true = gradients = \"release\"")
      .key(
          "fit", &OptimizerSettings::fit,
          Choice<OptimizerFit>{{{"as_written", OptimizerFit::kAsWritten}, {"auto", OptimizerFit::kAuto}}},
          "auto chooses state, master and gradients: the first of a list, from all float32 to the smallest, that leaves "
          "a tenth of each rank's memory free")
      .key("seed", &OptimizerSettings::seed, Integer{0, kAnyInteger}, "of stochastic rounding")
      .done();
}

Table memory_table() {
  return TableBuilder("memory", &JobConfig::memory, "What a rank may take of its node")
      .key(
          "limit", &MemorySettings::limit_bytes, BytesOrAuto{64 * kMiB, kPiB},
          "of one rank's whole process, page cache and code not counted; auto is what the node has left when the job "
          "starts, divided by its ranks. A job that must take more is refused",
          "bytes")
      .key(
          "offload", &MemorySettings::offload,
          Choice<Offload>{{{"none", Offload::kNone}, {"disk", Offload::kDisk}}},
          "disk keeps what is more than nine tenths of the limit in a file of each rank and reads it layer by layer: "
          "experts' optimizer state first, then their weights. To train, it needs released gradients")
      .key(
          "offload_path", &MemorySettings::offload_path, Path{true},
          "directory on a local disk for these files, which have no name and vanish with the job; \"\" = job.output")
      .done();
}

Table device_table() {
  return TableBuilder("device", &JobConfig::device, "What the ranks compute on")
      .key(
          "kind", &DeviceSettings::kind,
          Choice<DeviceKind>{
              {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}}},
          "cuda is a GPU for each rank: that of its number on its machine, or the only one it sees. auto takes GPUs where "
          "every rank has one, the CPU where none has, and refuses a mix")
      .done();
}

Table schedule_table() {
  return TableBuilder("schedule", &JobConfig::schedule, "The learning rate over time")
      .key("kind", &ScheduleSettings::kind,
           Choice<ScheduleKind>{{{"constant", ScheduleKind::kConstant},
                                 {"cosine", ScheduleKind::kCosine},
                                 {"linear", ScheduleKind::kLinear}}},
           "shape after warm-up")
      .key("warmup_steps", &ScheduleSettings::warmup_steps, Integer{0, 1'000'000'000},
           "steps of linear rise, part of train.steps", "steps")
      .key("final_factor", &ScheduleSettings::final_factor, Real{0, 1},
           "learning rate of the last step as a factor of optimizer.learning_rate; constant ignores it")
      .done();
}

Table checkpoint_table() {
  return TableBuilder("checkpoint", &JobConfig::checkpoint,
                      "Saved training state; with both intervals 0 none is saved, at the end neither")
      .key("every_steps", &CheckpointSettings::every_steps, Integer{0, 1'000'000'000},
           "save after every so many steps; 0 = not by steps", "steps")
      .key("every_minutes", &CheckpointSettings::every_minutes, Real{0, kWeekSeconds / 60},
           "save when so much time has passed since the last save; 0 = not by time", "min")
      .key("keep", &CheckpointSettings::keep, Integer{1, 1'000'000},
           "newest saved steps that are kept; the disk must have room for one more")
      .key("keep_every", &CheckpointSettings::keep_every, Integer{0, 1'000'000'000},
           "keep saved steps that this number divides as well, for ever; 0 = none", "steps")
      .key("path", &CheckpointSettings::path, Path{true},
           "directory of the saved steps, on every host; \"\" = checkpoints in job.output")
      .key(
          "storage", &CheckpointSettings::storage,
          Choice<SaveStorage>{
              {{"auto", SaveStorage::kAuto}, {"shared", SaveStorage::kShared}, {"node", SaveStorage::kNode}}},
          "where checkpoint.path lies: in a file system that all ranks share, or on each host's own disk, which then has what "
          "the ranks there keep; auto: shared where all ranks see what rank 0 makes, else node")
      .key(
          "partner_copies", &CheckpointSettings::partner_copies, Integer{0, 1},
          "with storage \"node\", how many copies of each rank's file another host keeps: with 1 no single host that is lost, "
          "its disk included, takes a saved step away")
      .key(
          "resume", &CheckpointSettings::resume,
          NamedInteger{{{"auto", CheckpointSettings::kResumeNewest},
                        {"never", CheckpointSettings::kResumeNever},
                        {"best", CheckpointSettings::kResumeBest}},
                       0,
                       1'000'000'000},
          "go on from the newest saved step if there is one, begin anew, or go on from the step with the lowest held-out "
          "loss, or from that step: each start that says so goes back to it")
      .key(
          "on_failure", &CheckpointSettings::on_failure,
          Choice<SaveFailure>{{{"continue", SaveFailure::kContinue}, {"stop", SaveFailure::kStop}}},
          "when a step cannot be saved: train on with a warning and try again, or end the job; earlier saved "
          "steps stay in both")
      .key(
          "margin_seconds", &CheckpointSettings::margin_seconds, Real{0, kWeekSeconds},
          "a Slurm job saves and ends with 75 when its allocation has so much left beyond one more step and a save; 0 = "
          "the end is not asked for",
          "s")
      .done();
}

Table guard_table() {
  return TableBuilder("guard", &JobConfig::guard, "Numbers that go wrong while training")
      .key(
          "on_nonfinite", &GuardSettings::on_nonfinite,
          Choice<OnNonFinite>{{{"stop", OnNonFinite::kStop}, {"skip", OnNonFinite::kSkip}}},
          "when loss or gradients of a step are NaN or infinite: end the job, or leave that step's update out and go "
          "on with the next batch; with gradients = \"release\" and clip = \"unit\" layers above the first such gradient "
          "keep their update")
      .key(
          "on_spike", &GuardSettings::on_spike,
          Choice<OnSpike>{{{"warn", OnSpike::kWarn}, {"skip", OnSpike::kSkip}, {"rewind", OnSpike::kRewind}}},
          "when a step's loss is above spike_factor times the median of the steps before: only say so, leave its "
          "update out, or take the last saved step's weights and go on with the next batch")
      .key("spike_factor", &GuardSettings::spike_factor, Real{1, 1e9}, "of the median of the losses before")
      .key("spike_window", &GuardSettings::spike_window, Integer{1, 100000},
           "steps of this start whose losses make that median; there is no spike before so many", "steps")
      .key("most_left_out", &GuardSettings::most_left_out, Integer{0, 1'000'000},
           "updates in a row that may be left out or rewound before the job ends", "steps")
      .key("compare_every", &GuardSettings::compare_every, Integer{0, 1'000'000'000},
           "compare what must be equal on all ranks after every such step; 0 = never", "steps")
      .done();
}

Table export_table() {
  return TableBuilder("export", &JobConfig::export_, "A Hugging Face directory written from the shards")
      .key("path", &ExportSettings::path, Path{true},
           "directory to write, which may not be there yet; relative to the current working directory")
      .key(
          "at_end", &ExportSettings::at_end,
          FlagOrWord<ExportAtEnd>{ExportAtEnd::kNo, ExportAtEnd::kLast, "best", ExportAtEnd::kBest},
          "export when training ends: the weights of its last step, or with \"best\" those with the lowest held-out loss; "
          "then a step is saved whenever an evaluation finds a lower one")
      .key("max_shard_size", &ExportSettings::max_shard_bytes, Bytes{64 * kKiB, kPiB},
           "of one safetensors file", "bytes")
      .key("experts", &ExportSettings::experts,
           Choice<ExportExperts>{{{"source", ExportExperts::kSource},
                                  {"per_expert", ExportExperts::kPerExpert},
                                  {"fused", ExportExperts::kFused}}},
           "names of expert tensors: as in model.path, one tensor per expert, or one per layer")
      .key(
          "adapters", &ExportSettings::adapters,
          Choice<ExportAdapters>{{{"keep", ExportAdapters::kKeep}, {"merge", ExportAdapters::kMerge}}},
          "write an adapter alone, as a directory that PEFT opens, or the model with it merged into its weights")
      .done();
}

Table evaluate_table() {
  return TableBuilder("evaluate", &JobConfig::evaluate, "Loss on other tokens while training")
      .key(
          "tokens", &EvaluateSettings::tokens, Paths{},
          "token files that are held out, one or a list: their loss is told, and nothing is learnt from them")
      .key("every_steps", &EvaluateSettings::every_steps, Integer{0, 1'000'000'000},
           "while training, evaluate after every so many steps and after the last one; 0 = never", "steps")
      .key(
          "patience", &EvaluateSettings::patience, Integer{0, 1'000'000'000},
          "end the training, with exit code 0, when the loss on held-out tokens has not fallen below its lowest value in so "
          "many evaluations, and save a step whenever it has; 0 = never",
          "evaluations")
      .done();
}

Table generate_table() {
  return TableBuilder("generate", &JobConfig::generate, "Answers to prompts")
      .key(
          "prompts", &GenerateSettings::prompts, Path{true},
          "file of prompts, needed to generate, or while training with every_steps: a text a line, or rows of JSON with prompt (text), tokens (ids) or messages "
          "(with chat = true), and an id if you like")
      .key("output", &GenerateSettings::output, Path{},
           "JSONL file of the answers, in the order in which they end; relative to the run directory")
      .key("every_steps", &GenerateSettings::every_steps, Integer{0, 1'000'000'000},
           "while training, answer the prompts after every so many steps; 0 = never", "steps")
      .key("max_tokens", &GenerateSettings::max_tokens, Integer{1, 1 << 20}, "of an answer", "tokens")
      .key("positions", &GenerateSettings::positions, Integer{2, 1 << 20},
           "of prompt and answer together, for which memory is taken", "tokens")
      .key("sequences", &GenerateSettings::sequences, Integer{1, 1 << 20},
           "prompts that are answered at once, over all ranks; more cost memory for their keys and values")
      .key("pass_tokens", &GenerateSettings::pass_tokens, Integer{1, 1 << 20},
           "tokens of prompts that a rank takes through the model at once", "tokens")
      .key("temperature", &GenerateSettings::temperature, Real{0, 100},
           "logits are divided by it; 0 = always the most probable token")
      .key("top_k", &GenerateSettings::top_k, Integer{0, 1 << 30},
           "draw from the k most probable tokens; 0 = all")
      .key("top_p", &GenerateSettings::top_p, Real{1e-9, 1},
           "draw from the most probable tokens that together are as probable as this; 1 = all")
      .key("min_p", &GenerateSettings::min_p, Real{0, 1},
           "draw from tokens at least this times as probable as the most probable one; 0 = all")
      .key("repetition_penalty", &GenerateSettings::repetition_penalty, Real{0.01, 100},
           "positive logits of tokens that are there already are divided by it, others multiplied; 1 = none")
      .key("seed", &GenerateSettings::seed, Integer{0, kAnyInteger}, "of the draws")
      .key("stop", &GenerateSettings::stop, Texts{.may_have_control_characters = true},
           "a text or a list: the first of them ends an answer, and is not part of it")
      .key("chat", &GenerateSettings::chat, Flag{}, "put prompts into the model's chat template")
      .key("ignore_eos", &GenerateSettings::ignore_eos, Flag{},
           "take the model's end-of-text token for any other, so that answers have max_tokens")
      .done();
}

Table metrics_table() {
  return TableBuilder("metrics", &JobConfig::metrics, "Numbers of the run")
      .key("file", &MetricsSettings::file, Path{}, "HDF5 file; relative to the run directory")
      .key("log_every", &MetricsSettings::log_every, Integer{1, 1'000'000'000},
           "print every such step's line, and the first and the last; the file holds every step")
      .done();
}

Table trace_table() {
  return TableBuilder("trace", &JobConfig::trace, "What single steps of a training do, for a profiler")
      .key(
          "steps", &TraceSettings::steps, Steps{},
          "record on every rank what these steps do: operations, waits, messages, disk; sluice trace makes one file of it. "
          "Other steps cost nothing")
      .done();
}

Table debug_table() {
  return TableBuilder("debug", &JobConfig::debug, "For comparing with a reference")
      .key("dump", &DebugSettings::dump, Path{true},
           "HDF5 file for logits, gradients and final weights of small models; relative to the run directory")
      .done();
}

Table deadline_table() {
  const Real seconds{0.1, kWeekSeconds};
  return TableBuilder("deadline", &JobConfig::deadline,
                      "How long a rank waits for the others before it ends the job")
      .key("setup_seconds", &DeadlineSettings::setup_seconds, seconds,
           "from launch to the agreement of all ranks", "s")
      .key("load_seconds", &DeadlineSettings::load_seconds, seconds, "for any one exchange while loading",
           "s")
      .key(
          "step_seconds", &DeadlineSettings::step_seconds, seconds,
          "least limit of a training step; it is larger where ten times the run's median step or its disk takes longer, "
          "and five times as large for the first step",
          "s")
      .key("evaluate_seconds", &DeadlineSettings::evaluate_seconds, seconds, "for one batch of an evaluation",
           "s")
      .key("save_seconds", &DeadlineSettings::save_seconds, seconds,
           "for any one exchange while training state is saved or restored", "s")
      .key("finish_seconds", &DeadlineSettings::finish_seconds, seconds, "for the end of the job", "s")
      .done();
}

}  // namespace

const std::vector<Table>& schema() {
  static const std::vector<Table> tables{
      job_table(),      model_table(),      parallel_table(),  load_table(),   data_table(),
      train_table(),    lora_table(),       optimizer_table(), memory_table(), device_table(),
      schedule_table(), checkpoint_table(), evaluate_table(),  guard_table(),  export_table(),
      generate_table(), metrics_table(),    trace_table(),     debug_table(),  deadline_table()};
  return tables;
}

std::string name_of(JobKind kind) {
  JobConfig config;
  config.job.kind = kind;
  return std::get<std::string>(find_field(*find_table("job"), "kind")->load(config));
}

const Table* find_table(std::string_view name) {
  const auto found = std::ranges::find(schema(), name, &Table::name);
  return found == schema().end() ? nullptr : &*found;
}

const Field* find_field(const Table& table, std::string_view key) {
  const auto found = std::ranges::find(table.fields, key, &Field::key);
  return found == table.fields.end() ? nullptr : &*found;
}

}  // namespace sluice
