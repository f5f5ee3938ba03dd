#!/bin/bash
# Submits a training, and an evaluation that starts when the training has ended well, however often it was requeued before:
#   slurm/train-then-evaluate.sh train.toml evaluate.toml [OPTIONS OF SBATCH]...
# model.path of the evaluation may be the training's run directory: its newest saved step is evaluated.
set -euo pipefail

train=${1:?usage: slurm/train-then-evaluate.sh TRAIN.toml EVALUATE.toml [OPTIONS OF SBATCH]...}
evaluate=${2:?usage: slurm/train-then-evaluate.sh TRAIN.toml EVALUATE.toml [OPTIONS OF SBATCH]...}
shift 2
script=$(dirname "$0")/train.sbatch

id=$(sbatch --parsable "$@" "$script" "$train")
echo "training: job $id"
next=$(sbatch --parsable --dependency="afterok:${id%%;*}" --kill-on-invalid-dep=yes "$@" "$script" "$evaluate")
echo "evaluation: job $next, after it"
