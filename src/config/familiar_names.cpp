#include "config/familiar_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace sluice {
namespace {

constexpr auto kKeys = std::to_array<FamiliarNames>({
    {"gradient_accumulation_steps accumulate_grad_batches grad_accum_steps global_batch_size "
     "total_batch_size train_batch_size batch_size",
     "expected train.batch_sequences, the sequences of a step over all ranks: what micro-batches do not "
     "hold at once is accumulated"},
    {"per_device_train_batch_size per_gpu_train_batch_size train_micro_batch_size_per_gpu "
     "micro_batch_size",
     "expected train.micro_batch_sequences, a rank's sequences in one pass; train.batch_sequences is "
     "the step over all ranks"},
    {"per_device_eval_batch_size eval_batch_size",
     "expected train.micro_batch_sequences, which holds for evaluations too"},
    {"num_train_epochs num_epochs epochs n_epochs train_epochs max_epochs",
     "expected train.steps: the line data of sluice check tells how many epochs they are"},
    {"max_steps num_steps train_steps total_steps train_iters max_iters num_training_steps",
     "expected train.steps"},
    {"lr base_lr peak_lr", "expected optimizer.learning_rate"},
    {"min_lr min_lr_ratio lr_end", "expected schedule.final_factor, the last rate as a share of the first"},
    {"warmup_ratio warmup_fraction lr_warmup_fraction",
     "expected schedule.warmup_steps, the ratio times train.steps"},
    {"num_warmup_steps lr_warmup_steps warmup_iters lr_warmup_iters warmup",
     "expected schedule.warmup_steps"},
    {"lr_scheduler_type lr_scheduler scheduler lr_decay_style lr_scheduler_kwargs", "expected schedule.kind"},
    {"optim optimizer_name optimizer_type",
     "expected optimizer.kind, with optimizer.state for one of 8 bits"},
    {"adam_beta1 adam_beta2 beta1 beta2", "expected optimizer.betas"},
    {"adam_epsilon epsilon", "expected optimizer.eps"},
    {"gradient_clipping clip_grad clip_grad_norm gradient_clip_val max_norm grad_clip",
     "expected optimizer.max_grad_norm"},
    {"bf16 fp16 tf32 torch_dtype mixed_precision precision half_precision",
     "expected model.dtype = \"bfloat16\""},
    {"gradient_checkpointing activation_checkpointing enable_activation_checkpointing use_reentrant "
     "gradient_checkpointing_kwargs recompute_granularity",
     "expected train.recompute, which by itself recomputes layers"},
    {"save_steps save_strategy save_interval save_freq saves_per_epoch",
     "expected checkpoint.every_steps or checkpoint.every_minutes"},
    {"save_total_limit max_checkpoints save_top_k", "expected checkpoint.keep"},
    {"resume_from_checkpoint auto_resume_from_checkpoints load_checkpoint", "expected checkpoint.resume"},
    {"eval_steps eval_strategy evaluation_strategy eval_interval evals_per_epoch do_eval",
     "expected evaluate.every_steps, with evaluate.tokens"},
    {"eval_dataset validation_file val_file eval_data", "expected evaluate.tokens"},
    {"val_set_size val_size validation_split test_split_ratio",
     "expected `sluice tokenize --holdout`, and evaluate.tokens"},
    {"logging_steps log_interval log_freq logging_strategy", "expected metrics.log_every"},
    {"report_to wandb_project wandb tensorboard use_wandb run_name",
     "expected no key: `sluice report RUN` draws a run, and `sluice metrics export RUN --tensorboard` "
     "writes it for others"},
    {"output_dir save_dir logging_dir out_dir output_path", "expected job.output"},
    {"overwrite_output_dir", "expected job.overwrite"},
    {"max_seq_length max_seq_len max_length seq_length seq_len sequence_len block_size cutoff_len "
     "model_max_length context_length",
     "expected data.sequence_length"},
    {"packing sample_packing pack_sequences packed neat_packing pad_to_sequence_len", "expected data.pack"},
    {"dataset train_file dataset_name dataset_path data_path train_data datasets train_dataset",
     "expected data.tokens"},
    {"dataset_mixer mix_strategy interleave_probs data_blend",
     "expected data.source, a list of files with weights"},
    {"train_on_inputs completion_only_loss assistant_only_loss train_on_prompt mask_history",
     "expected `sluice tokenize --loss assistant`, which makes the loss_mask of data.tokens"},
    {"chat_template template conversation_template",
     "expected no key: `sluice tokenize` lays chats out by the model's chat_template"},
    {"shuffle shuffle_dataset", "expected data.order = \"shuffle\" or \"sequential\""},
    {"seed data_seed random_seed",
     "expected data.seed for the order, optimizer.seed, lora.seed or generate.seed"},
    {"model_name_or_path model_name base_model model_id pretrained_model_name_or_path checkpoint_dir "
     "checkpoint tokenizer_name tokenizer",
     "expected model.path"},
    {"lora_r lora_rank r lora_dim", "expected lora.rank"},
    {"lora_alpha", "expected lora.alpha"},
    {"lora_dropout", "expected lora.dropout"},
    {"target_modules lora_target lora_target_modules target_parameters lora_target_linear "
     "lora_modules_to_save modules_to_save lora_attn_modules",
     "expected lora.targets"},
    {"use_rslora", "expected lora.rslora"},
    {"adapter_name_or_path lora_model_dir adapter_path",
     "expected lora.start, or model.adapter for other jobs"},
    {"finetuning_type use_peft peft_type use_lora",
     "expected lora.rank, which is 0 where all weights are trained"},
    {"load_in_4bit load_in_8bit quantization_bit use_qlora bnb_4bit_quant_type",
     "expected model.frozen_format = \"nf4\" or \"int8\", with adapters (lora.rank) over a base that is not quantised"},
    {"freeze_layers frozen_layers trainable_layers unfrozen_parameters", "expected train.freeze"},
    {"router_aux_loss_coef moe_aux_loss_coeff aux_loss_coef router_aux_loss_coefficient",
     "expected train.aux_loss_coefficient"},
    {"moe_z_loss_coeff router_z_loss_coef router_z_loss_coefficient z_loss_coef",
     "expected train.router_z_loss"},
    {"expert_model_parallel_size ep_size expert_parallel_size moe_expert_parallel",
     "expected parallel.expert_parallel"},
    {"data_parallel_replicate_degree dp_replicate dp_replicate_size num_replicas",
     "expected parallel.replicas"},
    {"deepspeed fsdp fsdp_config zero_optimization zero_stage ddp accelerate_config "
     "tensor_model_parallel_size pipeline_model_parallel_size data_parallel_size num_gpus "
     "nproc_per_node num_processes world_size",
     "expected no key: every job is sharded over all of its ranks, whose number mpirun, srun or `sluice "
     "launch -n` gives"},
    {"cpu_offload offload_optimizer fsdp_offload_params offload_params", "expected memory.offload"},
    {"num_threads dataloader_num_workers num_workers omp_num_threads preprocessing_num_workers",
     "expected parallel.threads"},
    {"attn_implementation flash_attention use_flash_attention flash_attn sdp_attention",
     "expected no key: attention needs no choice"},
    {"push_to_hub hub_model_id save_safetensors export_dir save_only_model",
     "expected export.path, with export.at_end = true"},
    {"max_new_tokens max_gen_toks", "expected generate.max_tokens"},
    {"loss_type loss_types pref_loss dpo_loss preference_loss", "expected prefer.loss"},
    {"dpo_beta pref_beta orpo_alpha orpo_beta", "expected prefer.beta"},
    {"loss_weights rpo_alpha pref_ftx sft_loss_weight",
     "expected prefer.sft_weight, the weight of the chosen answers' cross-entropy"},
    {"ref_model ref_model_name_or_path reference_model ref_adapter_name precompute_ref_log_probs",
     "expected prefer.reference: the model without its adapters is computed in the same passes"},
    {"teacher_model teacher_model_name_or_path teacher_path kd_teacher",
     "expected distil.teacher, a file that the teacher writes once with job.kind = \"score\""},
    {"kd_ratio kd_alpha kd_weight distillation_weight lmbda", "expected distil.weight"},
    {"kd_temperature distillation_temperature", "expected score.temperature, in the job of the teacher"},
    {"kd_top_k top_k_logits num_logits", "expected score.top, in the job of the teacher"},
});

constexpr auto kTables = std::to_array<FamiliarNames>({
    {"training training_args training_arguments trainer sft sft_config args hyperparameters",
     "expected [train], [optimizer], [schedule] and [data]"},
    {"model_args model_config base_model", "expected [model]"},
    {"dataset datasets data_args data_config", "expected [data]"},
    {"peft peft_config lora_config adapter qlora", "expected [lora]"},
    {"optim optimizer_config", "expected [optimizer]"},
    {"scheduler lr_scheduler", "expected [schedule]"},
    {"checkpointing checkpoints saving", "expected [checkpoint]"},
    {"eval evaluation validation", "expected [evaluate]"},
    {"dpo dpo_config orpo orpo_config preference preferences rlhf", "expected [prefer]"},
    {"distillation kd gkd gkd_config distill knowledge_distillation", "expected [distil]"},
    {"generation sampling", "expected [generate]"},
    {"logging log wandb", "expected [metrics]"},
    {"deepspeed fsdp distributed parallelism", "expected [parallel]"},
});

/// Spelling for comparisons: "Per-Device-Batch-Size" as "per_device_batch_size".
std::string plain_spelling(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// Whether `words`, a text with blanks between words, has the word `word`.
bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view next = words.substr(0, words.find(' '));
    if (next == word) return true;
    words.remove_prefix(std::min(words.size(), next.size() + 1));
  }
  return false;
}

std::string_view hint_in(std::span<const FamiliarNames> all, std::string_view name) {
  const std::string plain = plain_spelling(name);
  const auto found =
      std::ranges::find_if(all, [&](const FamiliarNames& some) { return has_word(some.names, plain); });
  return found == all.end() ? "" : found->hint;
}

}  // namespace

std::span<const FamiliarNames> familiar_keys() { return kKeys; }

std::string_view familiar_key_hint(std::string_view key) { return hint_in(kKeys, key); }

std::string_view familiar_table_hint(std::string_view table) { return hint_in(kTables, table); }

}  // namespace sluice
