#!/bin/bash
# Pre-training as a Slurm job on several nodes:
#
#     sbatch examples/cluster/slurm-pretrain.sh DATA RUN --config base --batch.slices 16
#
# DATA and RUN lie on storage that all nodes see. RANKS_PER_NODE is one for each GPU, or for each core (the default).
# Two minutes before its time is up the job gets SIGTERM: the run saves, and the job takes its place in the queue again,
# to go on where it was. With `scancel` the run saves too, and the job ends.
#SBATCH --job-name=electra-pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
set -uo pipefail

data=$1
run=$2
shift 2
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

requeue() {
    echo "the time is nearly up: saving, and queueing again"
    scancel --signal=TERM "$SLURM_JOB_ID.0" # not a signal to srun, which would end the step at once
    wait "$step"
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
}
trap requeue TERM

srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "${RANKS_PER_NODE:-$SLURM_CPUS_PER_TASK}" \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:${PORT:-29500}" --max-restarts 3 \
    --module electralab pretrain --data "$data" --out "$run" "$@" &
step=$!
wait "$step"
