"""Jobs drawn from a seed that must all begin with the numbers of one rank that keeps everything in float32.

A *task* is a small model of odd widths, its tokens and all that may change a step's numbers; a *way* to do it is drawn from all
that may not. Each comes of the seed and its own number alone.
"""
import json
import math
import random

import h5py
import numpy
import trajectories

RESUMED_STEPS = 3
WAYS_OF_A_TASK = 5  # which share its model and the numbers of one rank
KINDS = ("qwen3_moe", "qwen3_5_moe_text", "mixtral", "olmoe")


def draw_of(seed, *place):
    return random.Random("/".join(map(str, (seed, *place))))


def width(draw, least, most):
    """One of each kind: odd ones, and odd multiples of each power of two, of which blocks and lines hold whole or broken numbers."""
    power = draw.choice([power for power in (1, 2, 4, 8, 16, 32, 64) if power <= most])
    return power * draw.choice([odd for odd in range(1, most // power + 1, 2) if odd * power >= least] or [1])


def common_config(draw, kind):
    kv_heads = draw.randint(1, 3)
    experts = draw.randint(2, 8)
    return {
        "model_type": kind,
        "vocab_size": draw.choice([draw.randrange(61, 400), draw.randrange(400, 1200)]),
        "num_hidden_layers": 2,
        "num_key_value_heads": kv_heads,
        "num_attention_heads": kv_heads * draw.randint(1, 2),
        "num_experts_per_tok": draw.randint(1, min(3, experts)),
        "num_experts": experts,
        "hidden_act": "silu",
        "initializer_range": 0.2,  # so that logits are no rounding of a uniform distribution
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": draw.random() < 0.3,
    }


def qwen3_moe(draw):
    config = common_config(draw, "qwen3_moe")
    dense_layers = draw.choice([[], [], [0], [1]])
    return config | {"hidden_size": width(draw, 16, 112), "head_dim": 2 * draw.randrange(2, 13), "mlp_only_layers": dense_layers,
                     "moe_intermediate_size": width(draw, 3, 64), "intermediate_size": width(draw, 16, 96),
                     "norm_topk_prob": draw.random() < 0.5}


def qwen3_5_moe(draw):
    config = common_config(draw, "qwen3_5_moe_text")
    keys = draw.randint(1, 3)
    return config | {"hidden_size": width(draw, 16, 112), "head_dim": 8 * draw.randint(1, 3), "partial_rotary_factor": 0.25,
                     "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": draw.randint(2, 5),
                     "linear_num_key_heads": keys, "linear_num_value_heads": keys * draw.randint(1, 2),
                     "linear_key_head_dim": draw.randrange(5, 20), "linear_value_head_dim": draw.randrange(5, 20),
                     "moe_intermediate_size": width(draw, 3, 64), "shared_expert_intermediate_size": width(draw, 3, 64)}


def mixtral(draw):
    config = common_config(draw, "mixtral")
    config["num_local_experts"] = config.pop("num_experts")
    return config | {"hidden_size": width(draw, 16, 112), "head_dim": 2 * draw.randrange(2, 13),
                     "intermediate_size": width(draw, 3, 64)}


def olmoe(draw):
    config = common_config(draw, "olmoe")
    return config | {"hidden_size": config["num_attention_heads"] * 2 * draw.randrange(3, 12),
                     "intermediate_size": width(draw, 3, 64)}


MODELS = dict(zip(KINDS, (qwen3_moe, qwen3_5_moe, mixtral, olmoe)))


class Task:
    def __init__(self, seed, number):
        draw = draw_of(seed, "task", number)
        self.config = MODELS[KINDS[number % len(KINDS)]](draw)
        self.is_large = number % 7 == 3  # enough for a disk
        if self.is_large:
            self.enlarge(draw)
        self.dtype = "bfloat16" if number % 5 == 2 else "float32"
        self.tokens_seed = draw.randrange(1 << 30)
        self.has_documents = draw.random() < 0.5
        self.has_mask = draw.random() < 0.3
        # Few tokens for the vocabulary, so that rows of the embedding travel, or many. In bfloat16 one of a few may choose
        # another expert on another number of ranks, and with so few that would allow any loss.
        is_exact = self.dtype == "float32"
        self.batch = draw.randint(1 if is_exact else 4, 7)
        self.data = {"sequence_length": draw.choice([3, 5, 8, 16, 33] if is_exact else [16, 33]),
                     "order": draw.choice(["shuffle", "sequential"]), "seed": draw.randrange(100),
                     "pack": self.has_documents and draw.random() < 0.6}
        self.train = {"aux_loss_coefficient": draw.choice([0.0, 0.01])}
        if draw.random() < 0.15:
            self.train["freeze"] = draw.choice(["*self_attn*", "*embed_tokens*", "*experts*"])
        self.lora = {}
        if "freeze" not in self.train and draw.random() < 0.15:
            self.lora = {"rank": draw.randint(1, 5), "alpha": 7.0} | draw.choice(
                [{}, {"dropout": 0.2}, {"targets": ["all-linear", "*.experts.*"]}])
        self.is_drawn = draw.random() < 0.15  # its weights are no file's
        self.is_mixed = draw.random() < 0.15  # of two token files
        if draw.random() < 0.3:
            self.train["router_z_loss"] = 0.01
        self.preference = draw.choice(["sigmoid", "sigmoid_norm", "ipo", "hinge", "orpo"])
        # Rounds tokens on any number of ranks alike.
        self.dispatch = draw_of(seed, "dispatch", number).choice(["dtype", "dtype", "dtype", "int8"])

    def enlarge(self, draw):
        width = "moe_intermediate_size" if "moe_intermediate_size" in self.config else "intermediate_size"
        self.config |= {"num_hidden_layers": 6, width: draw.randrange(150, 250)}
        if "layer_types" in self.config:
            self.config["layer_types"] = self.config["layer_types"] * 3

    def write_tokens(self, path, number=0):
        """Random ids, about 40 batches of them."""
        numbers = numpy.random.default_rng(self.tokens_seed + number)
        length = self.data["sequence_length"]
        count = 40 * self.batch * length + 1
        with h5py.File(path, "w") as file:
            file["tokens"] = numbers.integers(0, self.config["vocab_size"], count, dtype=numpy.int32)
            if self.has_documents:
                inner = numbers.choice(numpy.arange(1, count), count // (length // 2 + 2), replace=False)
                file["document_starts"] = numpy.concatenate([[0], numpy.sort(inner)])
            if self.has_mask:
                file["loss_mask"] = (numbers.random(count) < 0.7).astype(numpy.uint8)

    def write_pairs(self, path):
        """Pairs of answers to random prompts, each with its documents in one sequence."""
        numbers = numpy.random.default_rng(self.tokens_seed + 2)
        documents, mask = [], []
        for _ in range(8 * self.batch):
            prompt = numbers.integers(0, self.config["vocab_size"], numbers.integers(1, 4))
            for _ in range(2):
                answer = numbers.integers(0, self.config["vocab_size"], numbers.integers(1, 4))
                documents.append(numpy.concatenate([prompt, answer]).astype(numpy.int32))
                mask.append(numpy.concatenate([0 * prompt, 0 * answer + 1]).astype(numpy.uint8))
        with h5py.File(path, "w") as file:
            file.update({"tokens": numpy.concatenate(documents), "loss_mask": numpy.concatenate(mask),
                         "document_starts": numpy.cumsum([0] + [len(document) for document in documents[:-1]]),
                         "pairs": numpy.arange(len(documents)).reshape(-1, 2)})

    def write_prompts(self, path):
        numbers = numpy.random.default_rng(self.tokens_seed)
        prompts = [numbers.integers(0, self.config["vocab_size"], numbers.integers(1, 9)).tolist() for _ in range(4)]
        path.write_text("".join(json.dumps({"id": i, "tokens": ids}) + "\n" for i, ids in enumerate(prompts)))

    def write(self, directory):
        """All that its jobs read, but for the weights."""
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(self.config))
        self.write_tokens(directory / "tokens.h5")
        if self.is_mixed:
            self.write_tokens(directory / "others.h5", number=1)
        self.write_pairs(directory / "pairs.h5")
        self.write_prompts(directory / "prompts.jsonl")

    def tables(self, directory, weights, does):
        """Of a job on one rank that keeps everything in float32; `directory` is what write() wrote."""
        model = {"path": directory, "init": "random"} if self.is_drawn else {"path": weights}
        tables = {"job": {"kind": "train" if does == "resume" else does}, "model": model | {"dtype": self.dtype},
                  "data": self.data | {"tokens": directory / "tokens.h5"}, "train": {"batch_sequences": self.batch},
                  "optimizer": {"eps": 1e-3, "learning_rate": 1e-3}, "checkpoint": {"every_minutes": 0},
                  "generate": {"prompts": directory / "prompts.jsonl", "max_tokens": 8, "ignore_eos": True},
                  "parallel": {"dispatch": self.dispatch}}
        if does in ("evaluate", "generate"):
            return merged(tables, {"data": {"pack": False}})
        if does in ("prefer", "score"):
            tables["data"] |= {"tokens": directory / "pairs.h5", "sequence_length": max(12, self.data["sequence_length"])}
        if does == "score":
            return tables
        if does == "prefer":
            lora = {key: value for key, value in self.lora.items() if key != "dropout"}
            return merged(tables, {"train": self.train | {"steps": 1}, "lora": lora, "prefer": {"loss": self.preference}})
        if self.is_mixed:
            sources = [{"tokens": directory / name, "weight": weight} for name, weight in (("tokens.h5", 3), ("others.h5", 1))]
            tables["data"] |= {"tokens": "", "source": sources}
        if does == "resume":
            tables["checkpoint"] |= {"every_steps": 1, "keep": RESUMED_STEPS}
        steps = RESUMED_STEPS if does == "resume" else 1
        return merged(tables, {"train": self.train | {"steps": steps}, "lora": self.lora})


def draw_optimizer(draw, dtype):
    kind = draw.choice(["adamw"] * 4 + ["lion", "adafactor"])
    optimizer = {"kind": kind, "gradients": draw.choice(["float32", "bfloat16", "release"]), "clip": draw.choice(["global", "unit"]),
                 "max_grad_norm": draw.choice([0.0, 1e-2, 1.0]), "weight_decay": draw.choice([0.0, 0.1])}
    optimizer["state"] = "factored" if kind == "adafactor" else draw.choice(["float32", "bfloat16", "int8", "int8"])
    if dtype == "bfloat16":
        optimizer["master"] = draw.choice(["float32", "24bit", "none"])
    if draw.random() < 0.1:
        optimizer["fit"] = "auto"
    return optimizer


def draw_layout(draw, task, tokens):
    """What may change where a run goes on, too."""
    ranks = draw.choice([1, 2, 2, 3, 3, 3, 3, 4])
    tables = {
        "load": {"readers": draw.choice(["rank0", "node", "all"]), "chunk": draw.choice(["64KiB", "100KiB", "8MiB"]),
                 "verify": draw.random() < 0.2 and not task.is_drawn},
        "parallel": {"expert_parallel": 2 if ranks == 4 else draw.choice([0, 1, ranks]), "threads": draw.choice([0, 1, 2])},
        "train": {"recompute": draw.choice(["layer", "none", "all"]), "micro_batch_sequences": draw.randint(1, 4)},
        "generate": {"batch_sequences": draw.randint(1, 5), "prefill_tokens": draw.choice([1, 3, 512])},
        "guard": {"compare_ranks_every": 1},
    }
    if draw.random() < 0.15:
        tables["evaluate"] = {"tokens": tokens, "every_steps": 1}
    return ranks, tables


def draw_copies(draw, ranks, tables):
    """Copies of the model on sets of ranks, in a quarter of the jobs that may have them."""
    copies = draw.choice([1, 1, *(copies for copies in range(1, ranks + 1) if ranks % copies == 0)])
    parallel = tables["parallel"]
    parallel["replicas"] = copies
    if parallel["replicas"] == 1:
        return
    if parallel["expert_parallel"] > 1 and ranks // copies % parallel["expert_parallel"]:
        parallel["expert_parallel"] = 0
    if tables["load"]["readers"] == "rank0":
        tables["load"]["verify"] = False


class Way:
    def __init__(self, seed, number, task, tokens):
        draw = draw_of(seed, "way", number)
        self.vocabulary = task.config["vocab_size"]
        # Where roundings are large, one of them may turn an answer.
        self.does = draw.choice(["train"] * 4 + ["resume"] * 2 + ["prefer"] * 2 + ["evaluate", "score"] +
                                ["generate" if task.dtype == "float32" else "evaluate"])
        self.ranks, self.tables = draw_layout(draw, task, tokens)
        self.tables["optimizer"] = draw_optimizer(draw, task.dtype)
        self.is_offloaded = draw.random() < (0.6 if task.is_large else 0.1)
        if self.is_offloaded:
            self.tables["optimizer"] |= {"gradients": "release", "fit": "as_written"}
            self.tables["memory"] = {"offload": "disk"}
        if draw.random() < 0.15:
            self.tables["debug"] = {"dump": "dump.h5"}
        if self.does == "prefer" and "evaluate" in self.tables:
            self.tables["evaluate"]["tokens"] = tokens.with_name("pairs.h5")
        self.ranks_after, self.tables_after = draw_layout(draw, task, tokens)
        if draw.random() < 0.15:
            self.tables["trace"] = {"steps": "1-2"}
        self.tables["parallel"]["reduce"] = draw_of(seed, "reduce", number).choice(["float32", "float32", "float32", "bfloat16"])
        copies = draw_of(seed, "copies", number)
        draw_copies(copies, self.ranks, self.tables)
        draw_copies(copies, self.ranks_after, self.tables_after)
        vocabulary = draw_of(seed, "vocabulary", number)
        for layout in (self.tables, self.tables_after):
            layout["parallel"]["vocabulary"] = vocabulary.choice(["auto", "gathered", "sharded", "sharded"])

    @property
    def does_first(self):
        """What one rank does, for this to begin with the same numbers."""
        return "train" if self.does == "resume" else self.does

    @property
    def counts_all_bytes(self):
        """Whether what ranks send in the first step is counted whole, and known before: the sums of Adafactor's update behind it are not, a
        dump sends more, and of a small vocabulary it depends on the tokens whether rows of the embedding travel or all of it."""
        optimizer = self.tables["optimizer"]
        is_whole = optimizer.get("state") != "factored" or optimizer["gradients"] == "release"
        return is_whole and "debug" not in self.tables and self.vocabulary >= 400

    def __str__(self):
        after = f", then {self.ranks_after} with {self.tables_after}" if self.does == "resume" else ""
        return f"{self.does} on {self.ranks} ranks{after}"


def merged(*jobs):
    tables = {}
    for job in jobs:
        for table, keys in job.items():
            tables[table] = tables.get(table, {}) | keys
    return tables


def loss_tolerance(task):
    """Relative, of equal weights. In float32 what is summed in another order differs by some 1e-7; in bfloat16 each number of a layer
    has eight bits, of which many make a sum. Of tokens in codes of 8 bits such a difference turns a few."""
    if task.dtype == "bfloat16":
        return trajectories.LOSS["bfloat16"]
    return 1e-6 if task.dispatch == "dtype" else 1e-3


def later_loss_tolerance(task, tables):
    """The same after an update. Lion's is a sign, which turns where a gradient is little more than its rounding. Of tokens in codes each
    update turns more of them: with products of another processor's order of sums the same ranks end
    0.2 % apart, other layouts 0.4 %."""
    if task.dispatch != "dtype":
        return max(loss_tolerance(task), 5e-3)
    is_rounded = tables["optimizer"]["kind"] == "lion" or tables["parallel"]["reduce"] == "bfloat16"
    return max(loss_tolerance(task), 1e-3 if is_rounded else 0)


def norm_tolerance(task, tables):
    """The same of gradients, each a sum over all tokens. Kept in bfloat16, or sent so, each is off by half a unit of its eighth bit,
    and their norm is at most."""
    optimizer = tables["optimizer"]
    tolerance = 1e-5 if task.dtype == "float32" else trajectories.NORM["bfloat16"]
    if task.dispatch != "dtype":
        tolerance = max(tolerance, 1e-2)
    is_exact = optimizer["gradients"] != "bfloat16" and optimizer.get("fit") != "auto" and tables["parallel"]["reduce"] == "float32"
    return tolerance if is_exact else max(tolerance, 2.0**-8)


def is_near(found, expected, tolerance):
    return math.isclose(found, expected, rel_tol=tolerance)
