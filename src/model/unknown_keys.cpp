#include "model/unknown_keys.hpp"

#include "base/text.hpp"

#include <set>
#include <string_view>

namespace sluice {
namespace {

/// Keys that change no computed number: ids of tokens, parts beside the language model, how others load and
/// run it, how its training was balanced, shapes of parts that are only copied, and keys that follow from
/// others or have a meaning in other families alone.
constexpr std::string_view kWithoutEffect =
    " _attn_implementation _commit_hash _name_or_path architectures attn_implementation "
    "audio_config audio_token_id auto_map aux_loss_alpha boa_token_id boi_token_id bos_token_id chunk_size "
    "chunk_size_feed_forward do_sample enable_attention_fp32_softmax enable_lm_head_fp32 "
    "enable_moe_fp32_combine eoa_token_id eoa_token_index eod_token_id eoi_token_id eos_token_id "
    "ep_size expand finetuning_task first_k_dense_replace gradient_checkpointing "
    "hybrid_override_pattern id2label image_grid_pinpoints image_seq_length "
    "image_token_compression_config image_token_id image_token_index image_token_len index_head_dim "
    "index_local_blocks index_n_heads index_skip_topk_offset index_topk_freq index_topk_pattern "
    "indexer_types initial_context_length intermediate_size is_decoder is_encoder_decoder "
    "keys_to_ignore_at_inference label2id language_model_only license mamba_chunk_size "
    "mamba_dt_init_floor mamba_dt_max mamba_dt_min mamba_expand mamba_ssm_cache_dtype max_length "
    "max_seq_len max_window_layers media_placeholder_token_id merged_hidden_size min_length "
    "mm_projector_config moe_capacity moe_gate "
    "moe_shared_expert_overlap moe_use_aux_free mtp_hybrid_override_pattern mtp_layer_types "
    "mtp_layers_block_type mtp_loss_scaling_factor mtp_mlp_layer_types multimodal_projector_bias "
    "n_group n_shared_experts norm_eps norm_topk_prob num_logits_to_keep "
    "num_mtp_layers num_nextn_predict_layers num_reward_heads output_attentions output_hidden_states "
    "output_router_logits pad_token partial_rotary_factor patch_token_len pretraining_tp problem_type "
    "projector_bias projector_hidden_act projector_hidden_size qk_head_dim quantization "
    "rescale_prenorm_residual return_dict rope_theta router_aux_loss_coef sep_token_id seq_aux "
    "sliding_window sliding_window_pattern spatial_merge_size supports_images task_specific_params "
    "time_step_floor time_step_max time_step_min tokenizer_class topk_group topk_softmax torch_dtype "
    "torchscript transformers_version understand_projector_stride use_bfloat16 use_cache "
    "use_double_wide_mlp use_flash_attn use_mamba_kernels video_token_id video_token_index "
    "vision_config vision_end_token_id vision_feature_layer vision_feature_select_strategy "
    "vision_start_token_id vision_token_id vocab_file vocab_size_per_layer_input ";

bool is_without_effect(std::string_view key) {
  return kWithoutEffect.find(std::string(" ").append(key).append(" ")) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> unknown_keys(const ConfigReader& config) {
  std::set<std::string> found;
  const auto add = [&](const ConfigReader& of) {
    for (const std::string& key : of.unasked_keys())
      if (!is_without_effect(key)) found.insert(printable(key));
  };
  add(config);
  if (config.has("text_config"))
    if (const std::optional<ConfigReader> text = config.object({"text_config"})) add(*text);
  return {found.begin(), found.end()};
}

}  // namespace sluice
