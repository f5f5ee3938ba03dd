#!/bin/bash
# What has changed, for all checks that look at changes alone.
#   tools/changed_files.sh --base   the commit that they count from: what HEAD and the remote's main have in common, or, where that is
#                                   HEAD or unknown, the commit 20 before HEAD
#   tools/changed_files.sh BASE     the files of the working tree that differ from the commit BASE, those changed last first
set -uo pipefail
cd "$(dirname "$0")/.." || exit

head=$(git rev-parse --verify -q HEAD) || { echo "changed_files.sh: needs the history of a git clone" >&2; exit 1; }
if [[ ${1-} == --base ]]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null)
  if [[ -z $base || $base == "$head" ]]; then
    base=$(git rev-parse --verify -q HEAD~20 || git rev-list --max-parents=0 HEAD | tail -1)
  fi
  echo "$base"
else
  {
    git ls-files --others --exclude-standard
    git diff --name-only HEAD
    git log --format= --name-only "$1..HEAD"
  } | awk '!seen[$0]++' | grep -Fxf <(git diff --name-only "$1"; git ls-files --others --exclude-standard)
fi
exit 0
