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
    " _attn_implementation _commit_hash _name_or_path architectures attn_implementation audio_config "
    "audio_token_id auto_map aux_loss_alpha boa_token_id boi_token_id bos_token_id "
    "chunk_size_feed_forward do_sample enable_attention_fp32_softmax enable_lm_head_fp32 "
    "enable_moe_fp32_combine eoa_token_id eoa_token_index eod_token_id eoi_token_id eos_token_id ep_size "
    "finetuning_task first_k_dense_replace gradient_checkpointing id2label image_token_id "
    "image_token_index index_head_dim index_n_heads index_skip_topk_offset index_topk_freq "
    "index_topk_pattern indexer_types initial_context_length is_decoder is_encoder_decoder "
    "keys_to_ignore_at_inference label2id language_model_only license max_length max_window_layers "
    "media_placeholder_token_id min_length mtp_layer_types mtp_mlp_layer_types multimodal_projector_bias "
    "mm_projector_config moe_capacity moe_gate moe_use_aux_free n_group norm_topk_prob num_mtp_layers "
    "num_nextn_predict_layers output_attentions output_hidden_states output_router_logits pad_token "
    "pretraining_tp problem_type projector_hidden_act qk_head_dim quantization return_dict "
    "router_aux_loss_coef sep_token_id seq_aux sliding_window sliding_window_pattern spatial_merge_size "
    "supports_images task_specific_params tokenizer_class topk_group topk_softmax torch_dtype "
    "torchscript transformers_version use_bfloat16 use_cache use_double_wide_mlp use_flash_attn "
    "video_token_id vision_config vision_end_token_id vision_feature_layer vision_start_token_id "
    "vision_token_id vocab_file vocab_size_per_layer_input ";

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
