"""ELECTRA as a detector of events that do not fit: a service log, a few of whose events were planted.

    python examples/log_anomalies.py [--sessions 4000] [--steps 600]

Writes a generated log, prepares it with `symbols`, trains on clean sessions, and asks for each event of sessions never
seen how likely it was replaced. Prints the area under the ROC curve: 0.5 is guessing.
"""

import argparse
import json
import tempfile
from pathlib import Path

from service_log import write_symbol_log
from sklearn.metrics import roc_auc_score

import electralab
from electralab.config import SettingsTree

SETTINGS: SettingsTree = {
    "model": {"num_layers": 2, "hidden_size": 64, "embedding_size": 64, "feedforward_size": 128},
    "batch": {"size": 16},
    "evaluation": {"times": 1},
}


def detect_anomalies(folder: Path, *, sessions: int, test_sessions: int, steps: int, threads: int = 0) -> float:
    log = write_symbol_log(folder / "log", seed=0, sessions=sessions, test_sessions=test_sessions)
    electralab.prepare([log.train], folder / "data", settings={"symbols": True, "packing": {"sequence_length": 64}})
    electralab.pretrain(folder / "data", folder / "run", settings=SETTINGS, steps=steps, threads=threads)

    truths: list[bool] = []
    chances: list[float] = []
    tested = [json.loads(line) for line in log.test.read_text().splitlines()]
    verdicts = electralab.detect(folder / "run", [json.dumps(session["symbols"]) for session in tested])
    for session, verdict in zip(tested, verdicts, strict=True):
        chances += [token["p_replaced"] for token in verdict["tokens"]]
        truths += [place in session["anomalies"] for place in range(len(session["symbols"]))]
    return float(roc_auc_score(truths, chances))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        auc = detect_anomalies(Path(folder), sessions=arguments.sessions, test_sessions=200, steps=arguments.steps)
    print(f"AUC of finding the planted events: {auc:.3f}")


if __name__ == "__main__":
    main()
