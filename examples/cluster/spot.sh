#!/bin/bash
# Pre-training on a machine that may be taken away: start this at boot, with RUN on storage that outlives the machine.
#
#     examples/cluster/spot.sh DATA RUN --config small --steps 100000
#
# Clouds send SIGTERM to all processes before they stop a spot machine (most leave 30 to 120 seconds): the run saves and
# ends. The next machine starts the same command and goes on from there, with any number of ranks. RANKS is one for each
# GPU, or for each core (the default).
set -uo pipefail

data=$1
run=$2
shift 2
stop() {
    kill -TERM "$training"
    wait "$training"
    exit 0
}
trap stop TERM

torchrun --standalone --nproc-per-node "${RANKS:-$(nproc)}" --max-restarts 3 \
    --module electralab pretrain --data "$data" --out "$run" "$@" &
training=$!
wait "$training"
