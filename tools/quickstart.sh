#!/bin/bash
# From a fresh clone to a model that writes in one command: packages, build, a random Mixture-of-Experts checkpoint of about
# 63 M parameters, a book made into tokens with a part held out, training over 3 ranks, the trained model exported and
# evaluated on the part that it has not seen, a few sentences from it, a page that
# shows the run, and a plot.
#   tools/quickstart.sh [--set table.key=value]...     further words go to `sluice run`
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=3
config=configs/quickstart.toml
model=models/quickstart
run=runs/quickstart
trained=$run/model
sluice=build/release/bin/sluice

step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
fail() { printf '\nquickstart.sh: %s\n' "$*" >&2; exit 1; }

step "packages"
tools/setup.sh || fail "packages are missing; the message above says which"

step "build: $sluice"
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log >&2; fail "cmake could not configure the project"; }
cmake --build --preset release --target sluice || fail "the build failed; the first error above is the one that counts"

step "model: $model"
if [[ -e $model/config.json ]]; then
  echo "kept: it is there already (delete $model to draw it anew)"
else
  # A half-written model must not be taken for a whole one next time.
  rm -rf "$model.partial"
  mkdir -p "$(dirname "$model")"
  "$sluice" synthesize configs/quickstart-model "$model.partial" --seed 1 || fail "sluice synthesize could not write $model"
  "$sluice" tokenize "$model.partial" configs/quickstart-model/moby-dick.txt --documents blank --holdout 0.05 \
    -o "$model.partial/book.h5" || fail "sluice tokenize could not make tokens of the book"
  mv "$model.partial" "$model"
fi

step "training: $ranks ranks, $config"
if [[ -e $run ]]; then
  aside=$run-$(date +%Y%m%d-%H%M%S)
  mv "$run" "$aside"
  echo "moved the earlier run to $aside"
fi
status=0
tools/mpirun.sh -np $ranks "$sluice" run "$config" \
  --set export.at_end=true --set export.path="$trained" "$@" || status=$?
((status == 0)) || fail "training ended with exit code $status; the message above says why (README.md lists the codes)"

step "evaluation of $trained on the paragraphs that were held out"
tools/mpirun.sh -np $ranks "$sluice" run "$config" --set job.kind=evaluate --set job.output="$run/evaluation" \
  --set model.path="$trained" --set data.tokens="$model/book.holdout.h5" ||
  fail "the trained model in $trained could not be evaluated"

step "what it writes after 'Call me Ishmael.'"
"$sluice" generate "$trained" --prompt "Call me Ishmael." --max-tokens 80 --temperature 0.6 --top-p 0.9 --ignore-eos 2>build/generate.log ||
  { cat build/generate.log >&2; fail "the trained model in $trained does not answer"; }

step "plot"
tools/plot_metrics "$run/metrics.h5" -o "$run/metrics.png" || fail "the plot failed; the numbers are in $run/metrics.h5"

step "report"
"$sluice" report "$run" || fail "the report could not be written; the numbers are in $run/metrics.h5"

cat <<END

Done in $SECONDS s.
  report    file://$PWD/$run/report.html     a page for a browser: loss, speed, memory, experts
  plot      $run/metrics.png     loss, tokens per second, gradient norm, learning rate
  numbers   $run/metrics.h5      h5dump -n 1 $run/metrics.h5 lists them with their units
  job       $run/job.toml        every setting of this run
  model     $trained          the trained weights, a Hugging Face directory; it began as $model
  loss      $run/evaluation/metrics.h5   of the trained model, paragraph by paragraph that it has not seen
Again:      tools/mpirun.sh -np $ranks $sluice run $config --set job.overwrite=true
Ask it:     $sluice generate $trained --prompt 'The whale' --temperature 0.6
END
