"""transformers' step on a model's shape, for tools/gpu_check.sh: weights drawn in bfloat16 on the GPU, gradients in bfloat16,
Adafactor without a first moment, one sequence. The last line is a JSON object.

    peer_step.py CONFIG_DIR LENGTH STEPS
"""
import json
import sys
import time

import torch
import transformers


def main():
    directory, length, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config = transformers.AutoConfig.from_pretrained(directory)
    config = getattr(config, "text_config", config)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = transformers.Adafactor(model.parameters(), lr=1e-5, relative_step=False, scale_parameter=False)
    tokens = torch.randint(config.vocab_size, (1, length), device="cuda")
    seconds = []
    for _ in range(steps):
        torch.cuda.synchronize()
        began = time.monotonic()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - began)
    best = min(seconds[1:] or seconds)
    print(json.dumps({"transformers, tokens/s": length / best, "transformers, peak bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main()
