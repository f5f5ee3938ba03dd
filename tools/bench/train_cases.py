"""The models and cases of bench_train, and what the machine's rates say of a step's time."""
import dataclasses
import itertools
import pathlib

BYTES_PER_PARAMETER = 30
LENGTHS, RANKS, EXPERTS = (512, 4096), (1, 3), {"gathered": 1, "routed": 0}
# The levels of ONEDNN_MAX_CPU_ISA, with the flag of /proc/cpuinfo that each asks for.
ISA_FLAGS = {"SSE41": "sse4_1", "AVX": "avx", "AVX2": "avx2", "AVX512_CORE": "avx512f", "AVX512_CORE_VNNI": "avx512_vnni",
             "AVX512_CORE_BF16": "avx512_bf16", "AVX512_CORE_AMX": "amx_tile"}
COMMON = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": False, "hidden_act": "silu",
          "decoder_sparse_step": 1, "mlp_only_layers": [], "initializer_range": 0.02, "max_position_embeddings": 8192,
          "norm_topk_prob": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "bfloat16", "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4}
# 173 M parameters, of which a token meets 24 M in the layers and 8 M in the head; 521 M, of which it meets 75 M and 25 M.
MODELS = {
    "32M": COMMON | {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
                     "moe_intermediate_size": 384, "intermediate_size": 1024, "vocab_size": 16384},
    "100M": COMMON | {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
                      "moe_intermediate_size": 512, "intermediate_size": 2048, "vocab_size": 32000},
}


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    length: int
    ranks: int
    experts: str
    isa: str = ""  # ONEDNN_MAX_CPU_ISA; "" leaves it as it is

    def __str__(self):
        return f"{self.model}-{self.length}-{self.ranks}-{self.experts}" + (f"@{self.isa}" if self.isa else "")

    @property
    def tokens(self):
        """Of a step, over all ranks."""
        return self.length * self.ranks


def all_cases():
    return [Case(*values) for values in itertools.product(MODELS, LENGTHS, RANKS, EXPERTS)]


def isa_levels():
    """Those that this processor can run."""
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return [level for level, flag in ISA_FLAGS.items() if flag in flags]


def at_levels(cases, levels):
    """The cases, and those of one rank at each level as well: one rank alone has all cores."""
    return [each for case in cases for each in
            [case, *(dataclasses.replace(case, isa=level) for level in levels if case.ranks == 1)]]


def flop_per_token(config, length):
    """Of all products of a step with recompute = "layer", by term; half of the square of causal attention counts."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    queries, keys = (config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    expert = 3 * hidden * config["moe_intermediate_size"]
    layer = 4 * layers  # times the forward pass of one: forward, once again, backward to inputs and to weights
    return {
        "projections": layer * 2 * hidden * (2 * queries + 2 * keys),
        "attention": layer * 2 * 2 * queries * length // 2,
        "router": layer * 2 * hidden * config["num_experts"],
        "experts": layer * 2 * expert * config["num_experts_per_tok"],
        "head": 3 * 2 * hidden * config["vocab_size"],
    }


def limit_of(case, parameters, rates):
    """The seconds that a step must take, with their terms."""
    flop = {name: each * case.tokens for name, each in flop_per_token(MODELS[case.model], case.length).items()}
    memory = BYTES_PER_PARAMETER * parameters
    seconds = {"products": sum(flop.values()) / rates["flop_per_second"], "memory": memory / rates["bytes_per_second"]}
    return {"flop": flop, "memory_bytes": memory, "seconds": seconds, "step_seconds": sum(seconds.values())}
