#!/bin/bash
# mpirun for one machine: more ranks than cores allowed, nobody pinned, root allowed.
#   tools/mpirun.sh -np 3 build/release/bin/sluice run my-job.toml
# On a cluster call mpirun or srun yourself: these flags are for trying things out.
set -euo pipefail

launcher=${MPIRUN:-mpirun}
unset MPIRUN  # which may be this script: it would call itself for ever
command -v "$launcher" >/dev/null || { echo "mpirun.sh: '$launcher' not found; run tools/setup.sh" >&2; exit 1; }

flags=()
version=$("$launcher" --version 2>/dev/null | sed -n 's/.*(Open MPI) \([0-9]*\).*/\1/p' | head -1)
if [[ -n $version ]]; then
  # Ranks pinned one per core would share cores with whatever else runs here.
  flags+=(--bind-to none)
  # Open MPI 5 replaced --oversubscribe by a modifier of the mapping.
  if ((version < 5)); then flags+=(--oversubscribe); else flags+=(--map-by :OVERSUBSCRIBE); fi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
exec "$launcher" "${flags[@]}" "$@"
