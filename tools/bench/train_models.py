"""The models of bench_train, and the products of a step of each."""
COMMON = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": False, "hidden_act": "silu",
          "decoder_sparse_step": 1, "mlp_only_layers": [], "initializer_range": 0.02, "max_position_embeddings": 8192,
          "norm_topk_prob": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "bfloat16", "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4}
SMALL = COMMON | {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
                  "moe_intermediate_size": 384, "intermediate_size": 1024, "vocab_size": 16384}


def of_family(model_type, changes, without=()):
    """SMALL in another family."""
    return {name: value for name, value in SMALL.items() if name not in ("architectures", *without)} | {"model_type": model_type} | changes


SINKS = of_family("gpt_oss", {"intermediate_size": 384, "num_local_experts": 32, "attention_bias": True, "sliding_window": 128,
                              "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}},
                  without=("num_experts", "moe_intermediate_size", "norm_topk_prob"))
# Layers of one block each: Mamba-2, experts, and twice attention.
MAMBA = ["mamba", "moe", "mamba", "moe", "mamba", "moe", "attention", "moe"] * 2
# Of Qwen3-MoE 173 M parameters, of which a token meets 24 M in the layers and 8 M in the head, and 521 M, of which it meets 75 M
# and 25 M. The others have the experts of the first one, and another block in the place of its attention or its router.
MODELS = {
    "32M": SMALL,
    "100M": COMMON | {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
                      "moe_intermediate_size": 512, "intermediate_size": 2048, "vocab_size": 32000},
    "sigmoid": of_family("minimax_m2", {"intermediate_size": 384, "num_local_experts": 32, "rotary_dim": 32},
                         without=("num_experts", "moe_intermediate_size", "norm_topk_prob", "attention_bias")),
    "latent": of_family("deepseek_v3", {"num_key_value_heads": 8, "q_lora_rank": 256, "kv_lora_rank": 128, "qk_nope_head_dim": 64,
                                        "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 32, "n_shared_experts": 1,
                                        "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                                        "num_nextn_predict_layers": 0}, without=("head_dim", "num_experts")),
    "sinks": SINKS,
    "sinks-windows": SINKS | {"layer_types": ["sliding_attention"] * 8},
    "sinks-full": SINKS | {"layer_types": ["full_attention"] * 8},
    "delta": of_family("qwen3_next", {"linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 64,
                                      "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
                                      "shared_expert_intermediate_size": 384, "partial_rotary_factor": 0.5}),
    "conv": of_family("lfm2_moe", {"conv_L_cache": 3, "conv_bias": False, "num_dense_layers": 0, "use_expert_bias": True, "norm_eps": 1e-5,
                                   "layer_types": ["conv", "conv", "full_attention", "conv"] * 2, "routed_scaling_factor": 1.0}),
    "two-sizes": of_family("gemma4_text", {
        "hidden_activation": "gelu_pytorch_tanh", "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention", "full_attention"],
        "attention_k_eq_v": True, "enable_moe_block": True, "head_dim": 256, "global_head_dim": 512, "num_attention_heads": 4,
        "num_global_key_value_heads": 1, "intermediate_size": 512, "top_k_experts": 4, "sliding_window": 1024, "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "tie_word_embeddings": True,
        "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
                            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}},
        without=("num_experts_per_tok", "rope_theta", "norm_topk_prob", "hidden_act", "decoder_sparse_step", "mlp_only_layers")),
    "mamba": of_family("nemotron_h", {
        "num_hidden_layers": len(MAMBA), "layers_block_type": MAMBA, "head_dim": 128, "num_attention_heads": 4, "mamba_num_heads": 16,
        "mamba_head_dim": 64, "n_groups": 2, "ssm_state_size": 128, "conv_kernel": 4, "chunk_size": 128, "expand": 2,
        "mlp_hidden_act": "relu2", "moe_intermediate_size": 576, "moe_shared_expert_intermediate_size": 576, "n_routed_experts": 32,
        "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "layer_norm_epsilon": 1e-5,
        "mamba_proj_bias": False, "use_bias": False, "use_conv_bias": True, "mlp_bias": False, "time_step_limit": [0.0, 100.0]},
        without=("num_experts", "rope_theta", "rms_norm_eps", "hidden_act", "decoder_sparse_step", "mlp_only_layers")),
}


def _grouped(config, length, seen=None):
    """(multiplications of a token's projections, of its scores and values) with heads that share keys; it sees `seen` tokens."""
    queries, keys = (config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    return config["hidden_size"] * (2 * queries + 2 * keys), 2 * queries * (length / 2 if seen is None else seen)


def _latent(config, length):
    """Each low-rank product once."""
    hidden, heads, kv_rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    key, value = config["qk_nope_head_dim"] + config["qk_rope_head_dim"], config["v_head_dim"]
    projections = (hidden * config["q_lora_rank"] + config["q_lora_rank"] * heads * key + hidden * (kv_rank + config["qk_rope_head_dim"])
                   + kv_rank * heads * (config["qk_nope_head_dim"] + value) + heads * value * hidden)
    return projections, heads * (key + value) * length / 2


def _delta(config):
    """The recurrence has three products of a head's state and a vector for each token."""
    heads, value = config["linear_num_value_heads"], config["linear_value_head_dim"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    return (config["hidden_size"] * (2 * keys + 3 * heads * value + 2 * heads), 3 * heads * value * config["linear_key_head_dim"])


def _mamba(config):
    """The recurrence has two products of a head's state and a vector for each token."""
    inner = config["mamba_num_heads"] * config["mamba_head_dim"]
    inputs = 2 * config["n_groups"] * config["ssm_state_size"]
    return (config["hidden_size"] * (3 * inner + inputs + config["mamba_num_heads"]), 2 * inner * config["ssm_state_size"])


def _two_sizes(config, length, kind):
    """Full attention has heads of their own, whose values are what makes the keys."""
    if kind == "sliding_attention":
        return _grouped(config, length, _seen_in_window(config, length))
    queries, keys = (config[name] * config["global_head_dim"] for name in ("num_attention_heads", "num_global_key_value_heads"))
    return config["hidden_size"] * (2 * queries + keys), 2 * queries * length / 2


def _seen_in_window(config, length):
    """Keys inside the window, in the mean over the tokens of a sequence."""
    window = min(config["sliding_window"], length)
    return (window * length - window * (window - 1) / 2) / length - 0.5  # half of a token's own pair, as where all are seen


def _mixers(config, length):
    """Of each layer what _grouped() says."""
    count, kind = config["num_hidden_layers"], config["model_type"]
    if kind == "deepseek_v3":
        return [_latent(config, length)] * count
    if kind == "qwen3_next":
        gate = config["hidden_size"] * config["num_attention_heads"] * config["head_dim"]
        projections, scores = _grouped(config, length)
        full = (projections + gate, scores)
        return [full if (layer + 1) % config["full_attention_interval"] == 0 else _delta(config) for layer in range(count)]
    if kind == "gpt_oss":
        kinds = config.get("layer_types", ["sliding_attention", "full_attention"] * (count // 2))
        return [_grouped(config, length, _seen_in_window(config, length) if each.startswith("sliding") else None) for each in kinds]
    if kind == "lfm2_moe":
        hidden = config["hidden_size"]
        return [(4 * hidden * hidden, 0) if each == "conv" else _grouped(config, length) for each in config["layer_types"]]
    if kind == "gemma4_text":
        return [_two_sizes(config, length, each) for each in config["layer_types"]]
    if kind == "nemotron_h":
        of_block = {"mamba": _mamba(config), "attention": _grouped(config, length), "moe": (0, 0)}
        return [of_block[each] for each in config["layers_block_type"]]
    return [_grouped(config, length)] * count


def flop_per_token(config, length):
    """Of all products of a step with recompute = "layer", by term; half of the square of causal attention counts."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    experts = next(config[name] for name in ("num_experts", "num_local_experts", "n_routed_experts") if name in config)
    width = config.get("moe_intermediate_size", config["intermediate_size"])
    always = next((config[name] for name in ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size") if name in config),
                  config.get("n_shared_experts", 0) * width)
    if config["model_type"] == "gemma4_text":
        always = config["intermediate_size"]  # the dense MLP beside the experts
    chosen = config.get("num_experts_per_tok", config.get("top_k_experts"))
    with_experts = config.get("layers_block_type", ["moe"] * layers).count("moe")
    matrices = 2 if config["model_type"] == "nemotron_h" else 3
    mixers = _mixers(config, length)
    passes = 2 * 4  # a multiplication and an addition; forward, once again, backward to inputs and to weights
    return {
        "projections": passes * sum(projections for projections, _ in mixers),
        "attention": passes * sum(scores for _, scores in mixers),
        "router": passes * with_experts * hidden * experts,
        "experts": passes * with_experts * matrices * hidden * (width * chosen + always),
        "head": 3 * 2 * hidden * config["vocab_size"],
    }
