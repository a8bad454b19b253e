#!/bin/bash
# Preparing text with job arrays, from a login node:
#
#     examples/cluster/slurm-prepare.sh TEXTS DATA PARTS --sequence-length 512
#
# PARTS jobs count and hash their part of the text; one decides tokenizer, duplicates and what is held out; PARTS jobs
# encode; one writes report and manifest. Each waits for all before it. The same command again does only what is missing.
set -euo pipefail

texts=$1
data=$2
parts=$3
shift 3
prepare=$(printf '%q ' electra prepare "$texts" --out "$data" "$@")
part="--part \$SLURM_ARRAY_TASK_ID/$parts"

submit() {
    sbatch --parsable --job-name=electra-prepare --requeue "$@"
}

counted=$(submit --array="1-$parts" --wrap "$prepare --pass count $part")
merged=$(submit --dependency="afterok:$counted" --wrap "$prepare --pass merge")
encoded=$(submit --dependency="afterok:$merged" --array="1-$parts" --wrap "$prepare --pass encode $part")
finished=$(submit --dependency="afterok:$encoded" --wrap "$prepare")
echo "jobs $counted (count), $merged (merge), $encoded (encode), $finished (report); $data is whole after the last"
