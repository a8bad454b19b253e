"""`make golden`: write everything again that is frozen, after a change that is meant to change it."""

import argparse
import tempfile
from pathlib import Path

import golden_findings
import golden_losses
import golden_objectives
import snapshots
from electra_process import Shell
from golden_folders import make_folders, unpack
from golden_texts import write_lines

KINDS = ("losses", "objectives", "findings", "snapshots")


def write(kind: str, folder: Path) -> None:
    match kind:
        case "losses":
            golden_losses.PATH.write_text(golden_losses.write_golden(golden_losses.measure(folder)))
        case "objectives":
            unpack(folder)
            write_lines(golden_objectives.PATH, golden_objectives.measure_objectives(Shell(folder)))
        case "findings":
            write_lines(golden_findings.PATH, golden_findings.measure_findings(Shell(folder)))
        case _:
            snapshots.FOLDER.mkdir(exist_ok=True)
            for name, sections in snapshots.take_snapshots(Shell(folder), make_folders(folder)).items():
                (snapshots.FOLDER / f"{name}.txt").write_text(snapshots.write_snapshot(sections))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"{', '.join(KINDS)}; all of them, if none is named")
    for chosen in parser.parse_args().kinds or KINDS:
        with tempfile.TemporaryDirectory() as name:
            write(chosen, Path(name).resolve())
