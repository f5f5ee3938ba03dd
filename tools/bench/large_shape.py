"""The model of Qwen3-MoE's shape that fills a machine with its layers, and real text."""
import json

from watched_run import SOURCE

TOKENS = SOURCE / "tests/fixtures/moby-dick.tokens.h5"


def write_shape(directory, layers):
    config = json.loads((SOURCE / "configs/quickstart-model/config.json").read_text())
    config |= {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": layers, "num_attention_heads": 16,
               "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 768, "num_experts": 64, "num_experts_per_tok": 2,
               "vocab_size": 32000}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    return directory
