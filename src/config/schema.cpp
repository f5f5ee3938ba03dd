#include "config/schema.hpp"

#include "config/key_aliases.hpp"
#include "config/table_builder.hpp"
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

/// Rules of keys that a resumed training must keep.
constexpr KeyRules kFixed{.is_fixed = true};

/// Domain with all values of an optimizer's enumeration, by their spellings.
template <class Enum>
Choice<Enum> spelled() {
  Choice<Enum> choice;
  for (const std::string_view name : kSpellings<Enum>)
    choice.options.push_back({name, static_cast<Enum>(choice.options.size())});
  return choice;
}

Table job_table() {
  return TableBuilder("job", &JobConfig::job, "What runs, and where its results go")
      .key(
          "kind", &JobSettings::kind,
          Choice<JobKind>{{{"train", JobKind::kTrain},
                           {"prefer", JobKind::kPrefer},
                           {"load", JobKind::kLoad},
                           {"export", JobKind::kExport},
                           {"evaluate", JobKind::kEvaluate},
                           {"generate", JobKind::kGenerate},
                           {"score", JobKind::kScore}}},
          "what the job does: train a model on tokens; train it to prefer one answer of a pair to the other; "
          "load the weights and report; load and export them; evaluate the loss on tokens; "
          "answer prompts; or keep the log-probability of each document")
      .rules(kFixed)
      .key("output", &JobSettings::output, Path{},
           "run directory, created if missing; relative to the current working directory")
      .key("overwrite", &JobSettings::overwrite, Flag{},
           "whether a run directory that holds the metrics of another job may be reused; false refuses it")
      .done();
}

Table model_table() {
  return TableBuilder("model", &JobConfig::model, "The model, a Hugging Face directory",
                      {.changes_answers = true})
      .key("path", &ModelSettings::path, Path{},
           "Hugging Face directory (config.json and safetensors files), run directory, or checkpoint of a "
           "run; relative to the current working directory")
      .key("step", &ModelSettings::step,
           NamedInteger{{{"newest", kNewestStep}, {"best", kBestStep}}, 0, 1'000'000'000},
           "checkpoint to use where path, adapter or lora.start names a run: newest; best, the one "
           "with the lowest held-out loss; or the number of its step")
      .key(
          "dtype", &ModelSettings::dtype,
          Choice<DType>{{{"bfloat16", DType::kBFloat16}, {"float32", DType::kFloat32}}},
          "type of gathered weights and matrix products; router, norms, softmax and loss are float32 in both")
      .rules({.is_fixed = true, .changes_answers = true})
      .key("frozen_format", &ModelSettings::frozen_format,
           Choice<FrozenFormat>{{{"dtype", FrozenFormat::kDType},
                                 {"stored", FrozenFormat::kStored},
                                 {"int8", FrozenFormat::kInt8},
                                 {"nf4", FrozenFormat::kNf4}}},
           "format in memory of weights that are not trained: \"dtype\", plain numbers of "
           "model.dtype; \"stored\", the published codes and scales (FP8, INT4, MXFP4, NVFP4) of the "
           "matrices of layers and experts, dequantised where they are used; \"int8\" (one scale per "
           "row) and \"nf4\" (one scale per 64 elements) quantise these matrices while they are "
           "loaded, which changes their values")
      .rules({.is_chosen_by_fit = true})
      .key("init", &ModelSettings::init,
           Choice<ModelInit>{{{"checkpoint", ModelInit::kCheckpoint}, {"random", ModelInit::kRandom}}},
           "source of the initial weights: checkpoint, read from model.path; random, drawn from "
           "init_seed, which needs config.json alone and gives the same weights at any rank count")
      .key("init_seed", &ModelSettings::init_seed, Integer{0, kAnyInteger}, "seed of random weights")
      .key("adapter", &ModelSettings::adapter, Path{true},
           "LoRA adapter that the model computes with: a PEFT directory, the directory of a run that "
           "trained an adapter, or a checkpoint of that run; training uses lora.start instead")
      .done();
}

Table parallel_table() {
  return TableBuilder("parallel", &JobConfig::parallel, "How ranks share the work")
      .key(
          "expert_parallel", &ParallelSettings::expert_parallel, Integer{0, 65536},
          "number of ranks in an expert-parallel group; 0 = all ranks of a set: each owns whole experts, and "
          "tokens are dispatched to them; 1 = experts are sharded and gathered like dense weights; "
          "k = each group of k ranks owns all experts, and every expert is sharded over the groups")
      .key("replicas", &ParallelSettings::replicas, Integer{0, 65536},
           "number of copies of the model: as many sets of consecutive ranks hold it once each, train on "
           "their part of the batch and exchange gradients of trained weights; must divide the ranks, and "
           "expert_parallel the ranks of a set; 0 = by plan: the most that fit, of whole hosts each")
      .key("threads", &ParallelSettings::threads, Integer{0, 4096},
           "number of compute threads per rank; 0 = cores of the node divided by its ranks, at most "
           "OMP_NUM_THREADS")
      .key(
          "frozen", &ParallelSettings::frozen,
          Choice<FrozenWeights>{{{"auto", FrozenWeights::kAuto},
                                 {"gathered", FrozenWeights::kGathered},
                                 {"kept", FrozenWeights::kKept}}},
          "dense weights that are not trained, as beside adapters: gathered = in every pass; kept = once, and then "
          "whole on every rank, so that later steps send none of them; auto = kept if they fit in memory, but not "
          "on GPUs")
      .key(
          "reduce", &ParallelSettings::reduce,
          Choice<DType>{{{"float32", DType::kFloat32}, {"bfloat16", DType::kBFloat16}}},
          "type in which ranks send their parts of gradients to the rank that adds them up, in float32: bfloat16 "
          "rounds each part, so that gradients differ between numbers of ranks by its rounding, and halves the "
          "bytes; not on GPUs")
      .key(
          "dispatch", &ParallelSettings::dispatch,
          Choice<TokenFormat>{{{"dtype", TokenFormat::kDType}, {"int8", TokenFormat::kInt8}}},
          "format of tokens on their way to experts, and in backward of the gradients of what experts make of them: "
          "dtype = model.dtype; int8 = 8 bits with a scale for each 128 elements, of tokens that do not travel too, "
          "so that losses do not depend on the ranks; what experts make of them returns in model.dtype; not on GPUs")
      .key(
          "vocabulary", &ParallelSettings::vocabulary,
          Choice<VocabularySharing>{{{"auto", VocabularySharing::kAuto},
                                     {"gathered", VocabularySharing::kGathered},
                                     {"sharded", VocabularySharing::kSharded}}},
          "embedding and output head: gathered = each rank gathers the head for its own tokens; sharded = each "
          "rank keeps its rows and computes their logits for the tokens of all ranks, so that hidden states travel "
          "in place of weights and gradients; auto = whichever sends fewer bytes, or fits better where memory is "
          "short, but gathered on GPUs")
      .done();
}

Table load_table() {
  return TableBuilder("load", &JobConfig::load, "How weights stream from files into shards")
      .key("readers", &LoadSettings::readers,
           Choice<Readers>{{{"rank0", Readers::kRank0}, {"node", Readers::kNode}, {"all", Readers::kAll}}},
           "ranks that read the weight files: rank 0 for all, one rank per node for its node, or each rank "
           "its own part")
      .key("chunk", &LoadSettings::chunk_bytes, Bytes{64 * kKiB, kGiB},
           "size of one read of a weight file; every rank stages a few reads at a time, so larger "
           "ones take more memory",
           "bytes")
      .key("page_cache", &LoadSettings::page_cache,
           Choice<CachePolicy>{
               {{"auto", CachePolicy::kAuto}, {"keep", CachePolicy::kKeep}, {"drop", CachePolicy::kDrop}}},
           "what happens to weight files in the page cache after they are read: keep, they stay, "
           "which speeds up the next run; drop, they leave, which frees memory for this run; auto, "
           "only files that were cached before stay")
      .key("verify", &LoadSettings::verify, Flag{},
           "whether the files are read once more after loading and compared with the shards")
      .key("sink", &LoadSettings::sink,
           Choice<LoadSink>{{{"shards", LoadSink::kShards}, {"discard", LoadSink::kDiscard}}},
           "destination of the weights; discard drops them on arrival, to measure the stream alone")
      .key("unified_memory", &LoadSettings::unified_memory, Flag{},
           "whether CPU and GPU share one memory; if so, the page cache counts as used memory, and "
           "page_cache = \"auto\" keeps no weight files in it")
      .key("memory_limit", &LoadSettings::memory_limit_bytes, Bytes{0, kPiB},
           "memory besides its shard that a rank may take while loading; 0 = no limit", "bytes")
      .done();
}

TableList<SourceSettings> source_list() {
  return TableList<SourceSettings>()
      .column("tokens", &SourceSettings::tokens, Path{},
              "HDF5 token file of this source, as in data.tokens; read again from the start once all of "
              "its sequences were used")
      .column("weight", &SourceSettings::weight, Real{1e-6, 1e6},
              "share of the training sequences that come from this file, relative to the other weights")
      .rules(kFixed);
}

Table data_table() {
  return TableBuilder("data", &JobConfig::data, "Tokens that the job trains on or evaluates")
      .key("tokens", &DataSettings::tokens, Path{true},
           "tokens to train on or to evaluate: an HDF5 token file, or text or rows of JSON that the "
           "job tokenizes once; not needed to train on data.source; relative to the current working "
           "directory")
      .key("source", &DataSettings::source, source_list(),
           "mixture of token files to train on, one table [[data.source]] each, in place of data.tokens")
      .key("sequence_length", &DataSettings::sequence_length, Integer{1, 1 << 20}, "length of one sequence",
           "tokens")
      .rules(kFixed)
      .key("seed", &DataSettings::seed, Integer{0, kAnyInteger}, "seed of the shuffle")
      .rules(kFixed)
      .key("order", &DataSettings::order,
           Choice<DataOrder>{{{"shuffle", DataOrder::kShuffle}, {"sequential", DataOrder::kSequential}}},
           "order of the training sequences; global batches are the same at any rank count")
      .rules(kFixed)
      .key("answer", &DataSettings::answer,
           Choice<Answers>{
               {{"auto", Answers::kAuto}, {"chosen", Answers::kChosen}, {"rejected", Answers::kRejected}}},
           "answer to learn where tokens are made of rows of JSON with a chosen and a rejected one; auto is "
           "the chosen one, and the job says so")
      .rules(kFixed)
      .key("separator_token", &DataSettings::separator_token,
           Integer{-1, std::numeric_limits<std::int32_t>::max()},
           "id of the token that ends each document; tokens attend to and predict tokens of their "
           "own document alone; -1 = no such token: documents are those in the file's dataset "
           "document_starts, if it has one")
      .rules(kFixed)
      .key("pack", &DataSettings::pack, Flag{},
           "whether training sequences hold whole documents, as many as fit, in place of pieces of one "
           "stream; every token file then needs the dataset document_starts")
      .rules(kFixed)
      .key("pack_window", &DataSettings::pack_window, Integer{1, 1 << 24},
           "number of documents that are packed together, drawn from the whole file; each takes 128 "
           "bytes of memory on rank 0",
           "documents")
      .rules(kFixed)
      .key(
          "long_documents", &DataSettings::long_documents,
          Choice<LongDocuments>{{{"split", LongDocuments::kSplit},
                                 {"cut", LongDocuments::kCut},
                                 {"leave_out", LongDocuments::kLeaveOut}}},
          "treatment of packed documents that exceed sequence_length: split over several sequences, cut "
          "after the first one, or left out; pairs and scores need documents whole, and split refuses longer "
          "ones; of a pair, cut takes ends of the answers, of the longer one first")
      .rules(kFixed)
      .done();
}

Table train_table() {
  return TableBuilder("train", &JobConfig::train, "The training loop")
      .key("steps", &TrainSettings::steps, Integer{1, 1'000'000'000},
           "number of optimizer steps of the whole training")
      .key("batch_sequences", &TrainSettings::batch_sequences, Integer{1, 1 << 20},
           "number of sequences per step over all ranks, also in an evaluation")
      .rules(kFixed)
      .key("micro_batch_sequences", &TrainSettings::micro_batch_sequences, Integer{1, 1 << 20},
           "number of sequences per forward and backward pass of a rank; more sequences take more "
           "activation memory")
      .key("recompute", &TrainSettings::recompute,
           Choice<Recompute>{
               {{"layer", Recompute::kLayer}, {"none", Recompute::kNone}, {"all", Recompute::kAll}}},
           "activations that the backward pass recomputes: layer, those of each layer but "
           "attention's; all, attention's too; none, no activations, as all are kept in memory")
      .key("aux_loss_coefficient", &TrainSettings::aux_loss_coefficient, Real{kAuxLossOfFamily, 100},
           "weight of the load-balancing loss; 0 = no such loss; below 0 = 0.001, or 0 for models "
           "that are trained without a load-balancing loss, such as those with correction biases")
      .key("aux_loss_scope", &TrainSettings::aux_loss_scope,
           Choice<BalancingScope>{{{"model", BalancingScope::kModel}, {"layer", BalancingScope::kLayer}}},
           "layers over which the load-balancing loss balances experts: model, all layers together "
           "as in transformers, so that each layer may use a few, but different, experts; layer, "
           "each layer by itself")
      .key("router_z_loss", &TrainSettings::router_z_loss, Real{0, 100},
           "weight of the router z-loss, the mean of logsumexp(logits)^2 over tokens and MoE layers, "
           "which keeps logits small (1e-3 in ST-MoE); 0 = no z-loss")
      .key("router_bias_update_rate", &TrainSettings::router_bias_update_rate, Real{0, 1},
           "amount by which a router's correction biases change after each step: up for experts that "
           "got fewer tokens of the batch than the mean, down for those that got more (DeepSeek-V3); "
           "0 = no change")
      .key("freeze", &TrainSettings::freeze, Texts{},
           "patterns (* and ?) for the names of tensors to freeze: frozen tensors have no gradient "
           "and no optimizer state, and the backward pass ends at the lowest trained layer")
      .rules(kFixed)
      .done();
}

Table lora_table() {
  return TableBuilder("lora", &JobConfig::lora, "LoRA adapters, which are trained in place of the weights")
      .key("rank", &LoraSettings::rank, Integer{0, 1 << 16},
           "rank of each LoRA adapter, and in fused experts of each expert's adapter; 0 = no "
           "adapters, the weights themselves are trained")
      .rules(kFixed)
      .key("alpha", &LoraSettings::alpha, Real{0, 1e6},
           "numerator of an adapter's scale alpha / rank; 0 = alpha equals the rank")
      .rules(kFixed)
      .key("dropout", &LoraSettings::dropout, Real{0, 0.99},
           "share of a LoRA adapter's inputs that is dropped; must be 0 where routers or routed "
           "experts are adapted")
      .key("targets", &LoraSettings::targets, Texts{},
           "weights that get adapters: all-linear (projections of attention, linear attention, dense MLPs, "
           "routed and shared experts), linear-modules (the same without routed experts), module names as in "
           "PEFT, or patterns of tensor names (* and ?)")
      .rules(kFixed)
      .key("rslora", &LoraSettings::rslora, Flag{},
           "whether an adapter's scale is alpha / sqrt(rank), as in rank-stabilized LoRA")
      .rules(kFixed)
      .key("seed", &LoraSettings::seed, Integer{0, kAnyInteger},
           "seed of the initial adapter weights and of dropout")
      .key("start", &LoraSettings::start, Path{true},
           "LoRA adapter that training starts from: a PEFT directory, the directory of a run that "
           "trained an adapter, or a checkpoint of that run; its rank, alpha and targets then hold; "
           "\"\" = new adapters")
      .done();
}

Table optimizer_table() {
  return TableBuilder("optimizer", &JobConfig::optimizer, "The weight update")
      .key("kind", &OptimizerSettings::kind, spelled<OptimizerKind>(),
           "update rule: torch.optim.AdamW, Lion, or torch.optim.Adafactor, whose learning rate is relative "
           "to the size of the weights")
      .rules(kFixed)
      .key("learning_rate", &OptimizerSettings::learning_rate, Real{0, 100},
           "largest learning rate, reached after warm-up")
      .key("betas", &OptimizerSettings::betas, Betas{},
           "decay rates of the optimizer's first and second moment; Adafactor uses its own")
      .key("eps", &OptimizerSettings::eps, Real{1e-30, 1},
           "number that AdamW adds to the square root of the second moment; other optimizers ignore it")
      .key(
          "weight_decay", &OptimizerSettings::weight_decay, Real{0, 100},
          "decoupled weight decay of matrices and convolutions; biases and other vectors have none, those of "
          "experts included")
      .key("max_grad_norm", &OptimizerSettings::max_grad_norm, Real{0, 1e9},
           "largest L2 norm of the gradients, to which larger ones are clipped; 0 = no clipping")
      .key("clip", &OptimizerSettings::clip,
           Choice<ClipRule>{{{"global", ClipRule::kGlobal}, {"unit", ClipRule::kUnit}}},
           "norm that max_grad_norm bounds: global, the norm of all gradients together; unit, the "
           "norm of each matrix, of fused experts of each expert's; with gradients = \"release\", "
           "global costs a second backward pass")
      .key("state", &OptimizerSettings::state, spelled<StateFormat>(),
           "format of the optimizer's moments: 4, 2 or 1 bytes per element, or Adafactor's row and "
           "column means; moments of routers, norms and vectors are always float32")
      .rules({.is_fixed = true, .is_chosen_by_fit = true})
      .key("master", &OptimizerSettings::master, spelled<MasterFormat>(),
           "format of master weights: the low bits that are kept beside bfloat16 weights, 16 bits "
           "(float32), 8, or none; below 16 bits, updates are rounded stochastically")
      .rules({.is_fixed = true, .is_chosen_by_fit = true})
      .key("gradients", &OptimizerSettings::gradients, spelled<GradientMode>(),
           "format of gradients until the update: 4 or 2 bytes per element; or release, each layer "
           "is updated within the backward pass, and its gradients are freed")
      .rules({.is_chosen_by_fit = true})
      .key("release_gradients", &OptimizerSettings::release_gradients, Flag{},
           "former way to write a value of gradients: true means gradients = \"release\"")
      .key("fit", &OptimizerSettings::fit,
           Choice<OptimizerFit>{{{"as_written", OptimizerFit::kAsWritten}, {"auto", OptimizerFit::kAuto}}},
           "whether optimizer.state, master and gradients are used as written or chosen by memory: "
           "auto takes the first combination of a list, from all float32 to the smallest, that "
           "leaves a tenth of each rank's memory free")
      .key("seed", &OptimizerSettings::seed, Integer{0, kAnyInteger}, "seed of stochastic rounding")
      .done();
}

Table memory_table() {
  return TableBuilder("memory", &JobConfig::memory, "Memory that a rank may take of its node")
      .key("limit", &MemorySettings::limit_bytes, BytesOrAuto{64 * kMiB, kPiB},
           "most memory of one rank's process, page cache and code not counted; auto = what the node "
           "has left when the job starts, divided by its ranks. A job that needs more is refused",
           "bytes")
      .key(
          "offload", &MemorySettings::offload,
          Choice<Offload>{{{"none", Offload::kNone}, {"disk", Offload::kDisk}, {"source", Offload::kSource}}},
          "place for weights and optimizer state beyond nine tenths of memory.limit: disk keeps them "
          "in one file per rank and reads it layer by layer, first the experts' optimizer state, "
          "then their weights; training then needs gradients = \"release\". source leaves experts of "
          "model.frozen_format = \"stored\" in the files of model.path, which every rank reads")
      .key("offload_path", &MemorySettings::offload_path, Path{true},
           "directory on a local disk for the files of memory.offload, which are unlinked and vanish "
           "with the job; \"\" = job.output")
      .done();
}

Table device_table() {
  return TableBuilder("device", &JobConfig::device, "Device that the ranks compute on")
      .key(
          "kind", &DeviceSettings::kind,
          Choice<DeviceKind>{
              {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}}},
          "device of every rank: cuda is the GPU of its local rank, or the only visible one; auto takes GPUs "
          "where every rank has one, the CPU where none has, and refuses a mix")
      .done();
}

Table schedule_table() {
  return TableBuilder("schedule", &JobConfig::schedule, "The learning rate over time")
      .key("kind", &ScheduleSettings::kind,
           Choice<ScheduleKind>{{{"constant", ScheduleKind::kConstant},
                                 {"cosine", ScheduleKind::kCosine},
                                 {"linear", ScheduleKind::kLinear}}},
           "shape of the learning rate after warm-up")
      .key("warmup_steps", &ScheduleSettings::warmup_steps, Integer{0, 1'000'000'000},
           "steps of linear warm-up, part of train.steps", "steps")
      .key("final_factor", &ScheduleSettings::final_factor, Real{0, 1},
           "learning rate of the last step divided by optimizer.learning_rate; constant ignores it")
      .done();
}

Table checkpoint_table() {
  return TableBuilder("checkpoint", &JobConfig::checkpoint,
                      "Checkpoints of a training; with both intervals 0 none is saved, not even at the end")
      .key("every_steps", &CheckpointSettings::every_steps, Integer{0, 1'000'000'000},
           "steps between two checkpoints; 0 = not by steps", "steps")
      .key("every_minutes", &CheckpointSettings::every_minutes, Real{0, kWeekSeconds / 60},
           "minutes between two checkpoints; 0 = not by time", "min")
      .key("keep", &CheckpointSettings::keep, Integer{1, 1'000'000},
           "number of newest checkpoints to keep; the disk must have room for one more")
      .key("keep_every", &CheckpointSettings::keep_every, Integer{0, 1'000'000'000},
           "interval of checkpoints that are kept besides the newest ones: those of its multiples; 0 = none",
           "steps")
      .key("path", &CheckpointSettings::path, Path{true},
           "directory of the checkpoints, on every host; \"\" = checkpoints in job.output")
      .key(
          "storage", &CheckpointSettings::storage,
          Choice<SaveStorage>{
              {{"auto", SaveStorage::kAuto}, {"shared", SaveStorage::kShared}, {"node", SaveStorage::kNode}}},
          "where checkpoint.path lies: shared, a file system that all ranks see; node, each host's own disk, "
          "which holds the files of its ranks; auto, shared where all ranks see a file that rank 0 makes, "
          "else node")
      .key("partner_copies", &CheckpointSettings::partner_copies, Integer{0, 1},
           "copies of each rank's file that another host keeps, with storage = \"node\"; with 1, checkpoints "
           "survive the loss of any one host and its disk")
      .key("resume", &CheckpointSettings::resume,
           NamedInteger{{{"auto", CheckpointSettings::kResumeNewest},
                         {"never", CheckpointSettings::kResumeNever},
                         {"best", CheckpointSettings::kResumeBest}},
                        0,
                        1'000'000'000},
           "checkpoint to resume from: auto, the newest, if any; never, none; best, the one with the "
           "lowest held-out loss; or the number of its step, to which every start then goes back")
      .key("on_failure", &CheckpointSettings::on_failure,
           Choice<SaveFailure>{{{"continue", SaveFailure::kContinue}, {"stop", SaveFailure::kStop}}},
           "reaction to a checkpoint that cannot be saved: continue, warn and retry at the next "
           "save; or stop, end the job; earlier checkpoints stay in either case")
      .key("margin_seconds", &CheckpointSettings::margin_seconds, Real{0, kWeekSeconds},
           "time that a Slurm allocation must have left, beyond one more step and a save; with less "
           "the job saves and exits with 75; 0 = Slurm is not asked for the end of the allocation",
           "s")
      .done();
}

Table guard_table() {
  return TableBuilder("guard", &JobConfig::guard,
                      "NaN, infinities, loss spikes and differences between ranks while training")
      .key("on_nonfinite", &GuardSettings::on_nonfinite,
           Choice<OnNonFinite>{{{"stop", OnNonFinite::kStop}, {"skip", OnNonFinite::kSkip}}},
           "reaction to NaN or infinity in a step's loss or gradients: stop, end the job; skip, skip the "
           "update and take the next batch; with gradients = \"release\" and clip = \"unit\", layers above "
           "the first such gradient keep their update")
      .key(
          "on_spike", &GuardSettings::on_spike,
          Choice<OnSpike>{{{"warn", OnSpike::kWarn}, {"skip", OnSpike::kSkip}, {"rewind", OnSpike::kRewind}}},
          "reaction to a loss above spike_factor times the median of the losses before it: warn, "
          "print a warning; skip, skip the update; rewind, restore the last checkpoint and take the "
          "next batch")
      .key("spike_factor", &GuardSettings::spike_factor, Real{1, 1e9},
           "ratio of a loss to the median of the losses before it above which the loss is a spike")
      .key("spike_window", &GuardSettings::spike_window, Integer{1, 100000},
           "number of last losses whose median a spike is measured against; no loss is a spike "
           "before as many steps since the start",
           "steps")
      .key("max_skipped_steps", &GuardSettings::max_skipped_steps, Integer{0, 1'000'000},
           "largest number of updates in a row that may be skipped or rewound; one more ends the job",
           "steps")
      .key("compare_ranks_every", &GuardSettings::compare_ranks_every, Integer{0, 1'000'000'000},
           "steps between two comparisons of values that must be equal on all ranks; 0 = never", "steps")
      .done();
}

Table export_table() {
  return TableBuilder("export", &JobConfig::export_, "Export of the model as a Hugging Face directory")
      .key("path", &ExportSettings::path, Path{true},
           "Hugging Face directory to write, which must not exist yet; relative to the current "
           "working directory")
      .key("at_end", &ExportSettings::at_end,
           FlagOrWord<ExportAtEnd>{ExportAtEnd::kNo, ExportAtEnd::kLast, "best", ExportAtEnd::kBest},
           "whether training ends with an export: true, of the last weights; best, of those with the lowest "
           "held-out loss, for which a checkpoint is saved whenever an evaluation finds a lower one")
      .key("max_shard_size", &ExportSettings::max_shard_bytes, Bytes{64 * kKiB, kPiB},
           "largest size of one safetensors file", "bytes")
      .key("format", &ExportSettings::format,
           Choice<ExportFormat>{{{"plain", ExportFormat::kPlain}, {"source", ExportFormat::kSource}}},
           "form of exported weights: plain, quantised weights as the bfloat16 numbers that they "
           "stand for; source, the bytes of model.path for all weights that the job leaves unchanged, "
           "and FP8 again for FP8 weights that it changes")
      .key("experts", &ExportSettings::experts,
           Choice<ExportExperts>{{{"source", ExportExperts::kSource},
                                  {"per_expert", ExportExperts::kPerExpert},
                                  {"fused", ExportExperts::kFused}}},
           "layout of expert tensors: as in model.path, one tensor per expert, or one per layer")
      .key("adapters", &ExportSettings::adapters,
           Choice<ExportAdapters>{{{"keep", ExportAdapters::kKeep}, {"merge", ExportAdapters::kMerge}}},
           "form of an exported adapter: keep, the adapter alone as a PEFT directory; merge, the model with "
           "the adapter merged into its weights")
      .done();
}

Table prefer_table() {
  return TableBuilder("prefer", &JobConfig::prefer,
                      "Preferences between the answers of pairs, which job.kind = \"prefer\" learns")
      .key("loss", &PreferSettings::loss,
           Choice<PreferenceLoss>{{{"sigmoid", PreferenceLoss::kSigmoid},
                                   {"sigmoid_norm", PreferenceLoss::kSigmoidNorm},
                                   {"ipo", PreferenceLoss::kIpo},
                                   {"hinge", PreferenceLoss::kHinge},
                                   {"orpo", PreferenceLoss::kOrpo}}},
           "loss of a pair: sigmoid, DPO's; sigmoid_norm, the same of mean log-probabilities, so that longer "
           "answers do not count more; ipo; hinge; orpo, which needs no reference and adds the cross-entropy "
           "of the chosen answer with its prompt")
      .rules(kFixed)
      .key("beta", &PreferSettings::beta, Real{1e-9, 1e6},
           "strength of the preference: how much a log-probability counts relative to the reference's")
      .key("label_smoothing", &PreferSettings::label_smoothing, Real{0, 0.5},
           "probability that a pair has its answers the wrong way round; for sigmoid and sigmoid_norm")
      .key("sft_weight", &PreferSettings::sft_weight, Real{0, 1e6},
           "weight of the mean cross-entropy of the chosen answers' tokens, which is added to the loss; 0 = "
           "not added")
      .key(
          "reference", &PreferSettings::reference, Reference{},
          "model that the trained one is compared with: base, the model without its adapters, which is "
          "computed in the same passes and held nowhere; start, the weights that the job starts from, by which "
          "it scores its pairs before the first step; a path, or a list of paths, of files that job.kind = "
          "\"score\" wrote of the pairs, found by their digests; auto, base for a new adapter, else start")
      .rules(kFixed)
      .done();
}

Table evaluate_table() {
  return TableBuilder("evaluate", &JobConfig::evaluate, "Evaluation on held-out tokens while training")
      .key("tokens", &EvaluateSettings::tokens, Paths{},
           "held-out token files, one path or a list of paths: their loss is reported, and no step "
           "trains on them")
      .key("every_steps", &EvaluateSettings::every_steps, Integer{0, 1'000'000'000},
           "training steps between two evaluations; one more follows the last step; 0 = no evaluations",
           "steps")
      .key("patience", &EvaluateSettings::patience, Integer{0, 1'000'000'000},
           "number of evaluations in a row without a new lowest held-out loss after which training "
           "ends with exit code 0; each new lowest loss is checkpointed; 0 = training always makes "
           "train.steps steps",
           "evaluations")
      .done();
}

Table generate_table() {
  return TableBuilder("generate", &JobConfig::generate, "Answers to prompts", {.changes_answers = true})
      .key("prompts", &GenerateSettings::prompts, Path{true},
           "file of prompts, one per line: text, or JSON with prompt (text), tokens (ids) or "
           "messages (with chat = true), and optionally an id; needed to generate, and while "
           "training with every_steps")
      .rules({})
      .key("output", &GenerateSettings::output, Path{},
           "JSONL file of answers, written in the order in which they end; relative to the run directory")
      .rules({})
      .key("every_steps", &GenerateSettings::every_steps, Integer{0, 1'000'000'000},
           "training steps between two rounds of answers to the prompts; 0 = no answers while training",
           "steps")
      .key("max_tokens", &GenerateSettings::max_tokens, Integer{1, 1 << 20}, "largest length of an answer",
           "tokens")
      .key("max_sequence_length", &GenerateSettings::max_sequence_length, Integer{2, 1 << 20},
           "largest length of a prompt and its answer together; memory for keys and values is taken "
           "for as many tokens",
           "tokens")
      .key("batch_sequences", &GenerateSettings::batch_sequences, Integer{1, 1 << 20},
           "number of prompts that are answered at once, over all ranks; more prompts take more "
           "memory for keys and values")
      .rules({})
      .key("prefill_tokens", &GenerateSettings::prefill_tokens, Integer{1, 1 << 20},
           "largest number of prompt tokens per forward pass of a rank", "tokens")
      .rules({})
      .key(
          "products", &GenerateSettings::products,
          Choice<AnswerProducts>{{{"exact", AnswerProducts::kExact}, {"int8", AnswerProducts::kInt8}}},
          "how a few tokens are multiplied with weights that model.frozen_format keeps as codes: exact, with the "
          "bits that bfloat16 weights give; int8, faster, with the tokens' activations rounded to integers of 8 "
          "bits in blocks of 32. Answers within a training are exact")
      .key("temperature", &GenerateSettings::temperature, Real{0, 100},
           "divisor of the logits before a token is drawn; 0 = the most probable token is always taken")
      .key("top_k", &GenerateSettings::top_k, Integer{0, 1 << 30},
           "number of most probable tokens from which the next token is drawn; 0 = all tokens")
      .key("top_p", &GenerateSettings::top_p, Real{1e-9, 1},
           "least probability that the most probable tokens, from which the next token is drawn, "
           "must have together; 1 = all tokens")
      .key("min_p", &GenerateSettings::min_p, Real{0, 1},
           "least probability of a token that may be drawn, relative to the most probable token's; 0 "
           "= all tokens")
      .key("repetition_penalty", &GenerateSettings::repetition_penalty, Real{0.01, 100},
           "penalty on tokens that occur already: their positive logits are divided by it, negative "
           "ones multiplied; 1 = no penalty")
      .key("seed", &GenerateSettings::seed, Integer{0, kAnyInteger}, "seed of the random draws of tokens")
      .key("stop", &GenerateSettings::stop, Texts{.may_have_control_characters = true},
           "texts that end an answer; the first one found is not part of the answer")
      .key("chat", &GenerateSettings::chat, Flag{}, "whether prompts go through the model's chat template")
      .key("ignore_eos", &GenerateSettings::ignore_eos, Flag{},
           "whether the end-of-text token does not end an answer, so that every answer has max_tokens")
      .done();
}

Table score_table() {
  return TableBuilder("score", &JobConfig::score, "Log-probabilities of documents, by job.kind = \"score\"")
      .key("file", &ScoreSettings::file, Path{}, "HDF5 file of scores; relative to job.output")
      .key("tokens", &ScoreSettings::tokens, Flag{},
           "whether the log-probability of each token is kept too, 4 bytes a token of the file")
      .key(
          "distribution", &ScoreSettings::distribution,
          Choice<ScoreDistribution>{{{"none", ScoreDistribution::kNone},
                                     {"sampled", ScoreDistribution::kSampled},
                                     {"top", ScoreDistribution::kTop}}},
          "what is kept of the distribution at each target, for distil.teacher: none; sampled, tokens drawn from "
          "it with their counts, which on average are the distribution; top, the most probable tokens with their "
          "log-probabilities, and the probability of all others together")
      .key("samples", &ScoreSettings::samples, Integer{1, 255},
           "number of tokens drawn at each target, 5 bytes each", "tokens")
      .key("temperature", &ScoreSettings::temperature, Real{1e-3, 1e3},
           "divisor of the logits before the distribution is made")
      .key("top", &ScoreSettings::top, Integer{1, 1 << 20},
           "number of most probable tokens kept of each target, 8 bytes each", "tokens")
      .key("seed", &ScoreSettings::seed, Integer{0, kAnyInteger}, "seed of the draws")
      .done();
}

Table distil_table() {
  return TableBuilder(
             "distil", &JobConfig::distil,
             "Distributions of a larger model, which a training learns beside the tokens of its data")
      .key(
          "teacher", &DistilSettings::teacher, Paths{},
          "files that job.kind = \"score\" wrote with score.distribution, one path or a list, each of one of the "
          "token files that are trained on; a source without one is learnt from its own tokens")
      .rules(kFixed)
      .key(
          "weight", &DistilSettings::weight, Real{0, 1},
          "share w of the teacher in the loss, which is (1 - w) times the cross-entropy of the data's tokens plus "
          "w times that of the teacher's distributions")
      .key(
          "temperature", &DistilSettings::temperature, Real{0, 1e3},
          "temperature of the teacher's and the model's distribution; 0 = that of the teacher's files, and no "
          "other is possible; the data's own tokens are learnt at 1")
      .key(
          "loss", &DistilSettings::loss, Choice<DistilLoss>{{{"forward_kl", DistilLoss::kForwardKl}}},
          "forward_kl: Kullback-Leibler divergence of the model from the teacher, with all tokens that the file "
          "does not name as one; its gradient is not multiplied by the square of the temperature")
      .done();
}

Table metrics_table() {
  return TableBuilder("metrics", &JobConfig::metrics, "Metrics file and printed lines of the run")
      .key("file", &MetricsSettings::file, Path{}, "HDF5 metrics file; relative to the run directory")
      .key("log_every", &MetricsSettings::log_every, Integer{1, 1'000'000'000},
           "steps between two printed lines of metrics; the first and the last step are printed too, "
           "and the file holds every step")
      .done();
}

Table trace_table() {
  return TableBuilder("trace", &JobConfig::trace,
                      "Trace of single training steps or passes of answers, for a profiler")
      .key("steps", &TraceSettings::steps, Steps{},
           "training steps, or passes of a job that answers prompts, that every rank records (operations, "
           "waits, messages, disk) for `sluice trace`; others cost nothing")
      .done();
}

Table debug_table() {
  return TableBuilder("debug", &JobConfig::debug, "Dumps for comparison with a reference")
      .key("dump", &DebugSettings::dump, Path{true},
           "HDF5 file to which logits, gradients and final weights of small models are written; "
           "relative to the run directory")
      .done();
}

Table deadline_table() {
  const Real seconds{0.1, kWeekSeconds};
  return TableBuilder("deadline", &JobConfig::deadline,
                      "Time that a rank waits for the others before it ends the job")
      .key("setup_seconds", &DeadlineSettings::setup_seconds, seconds,
           "longest time from launch until all ranks have agreed on the job", "s")
      .key("load_seconds", &DeadlineSettings::load_seconds, seconds,
           "longest time for any one exchange while loading", "s")
      .key("step_seconds", &DeadlineSettings::step_seconds, seconds,
           "least time limit of a training step; raised to ten times the median step, and to what "
           "the disk needs; five times as long for the first step",
           "s")
      .key("evaluate_seconds", &DeadlineSettings::evaluate_seconds, seconds,
           "longest time for one batch of an evaluation", "s")
      .key("save_seconds", &DeadlineSettings::save_seconds, seconds,
           "longest time for any one exchange while a checkpoint is saved or restored", "s")
      .key("finish_seconds", &DeadlineSettings::finish_seconds, seconds,
           "longest time for the end of the job", "s")
      .done();
}

}  // namespace

const std::vector<Table>& schema() {
  static const std::vector<Table> tables{
      job_table(),      model_table(),      parallel_table(),  load_table(),   data_table(),
      train_table(),    lora_table(),       optimizer_table(), memory_table(), device_table(),
      schedule_table(), checkpoint_table(), evaluate_table(),  guard_table(),  export_table(),
      prefer_table(),   generate_table(),   score_table(),     distil_table(), metrics_table(),
      trace_table(),    debug_table(),      deadline_table()};
  return tables;
}

std::string name_of(JobKind kind) {
  JobConfig config;
  config.job.kind = kind;
  return std::get<std::string>(find_field(*find_table("job"), "kind")->load(config));
}

std::string name_of(FrozenFormat format) {
  JobConfig config;
  config.model.frozen_format = format;
  return std::get<std::string>(find_field(*find_table("model"), "frozen_format")->load(config));
}

std::string name_of(ScoreDistribution distribution) {
  JobConfig config;
  config.score.distribution = distribution;
  return std::get<std::string>(find_field(*find_table("score"), "distribution")->load(config));
}

const KeyInfo* find_key(std::string_view name) {
  const std::string current = current_name(name);
  for (const Table& table : schema())
    for (const Field& field : table.fields) {
      if (current == field.name()) return &field;
      for (const ListKey& column : field.columns)
        if (current == field.name() + "." + column.key) return &column;
    }
  return nullptr;
}

KeyRules rules_of(std::string_view name) {
  const KeyInfo* key = find_key(name);
  return key == nullptr ? KeyRules() : key->rules;
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
