#!/usr/bin/env bash
# The main job for seeds 1 to 5, JOBS at a time (default 1), and each run's greedy success over 500 episodes:
#     bash benchmarks/learning.sh [FOLDER] [JOBS]
# Writes FOLDER/seed<k>/, and FOLDER/learning.json with a line for each seed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-runs/learning} jobs=${2:-1}
mkdir -p "$folder"
one() {
    begin=$(date +%s)
    python run.py --env gridverse-memory-7x7 --seed "$2" --run-dir "$1/seed$2" > "$1/seed$2.txt"
    minutes=$(python -c "print(round(($(date +%s) - $begin) / 60, 2))")
    python run.py eval "$1/seed$2" --episodes 500 --seed 7 --json > "$1/seed$2.json"
    python - "$1/seed$2.json" "$2" "$minutes" <<'PYTHON'
import json, sys
print(json.dumps({"seed": int(sys.argv[2]), "minutes": float(sys.argv[3]), **json.load(open(sys.argv[1]))}))
PYTHON
}
export -f one
seq 1 5 | xargs -P "$jobs" -I{} bash -c 'one "$0" {}' "$folder" | tee "$folder/learning.json"
