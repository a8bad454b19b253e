"""The README's commands and Python are run as they stand; only minutes are shortened."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)
TRUTH = "we the people of the united states are free and the congress shall keep the peace of the states ."


def _write_texts(folder: Path) -> None:
    texts = folder / "my_texts"
    texts.mkdir()
    words = TRUTH.split()
    documents = [" ".join(words[(i * k) % len(words)] for k in range(1, 60)) for i in range(1, 400)]
    (texts / "a.txt").write_text("\n\n".join(documents))
    events = '["open", "read", "read", "write", "close"]\n["open", "write", "close", "%d"]\n'
    (folder / "events.jsonl").write_text("".join(events % i for i in range(200)))


@pytest.mark.flow
def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    _write_texts(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    assert {language for language, _ in blocks} == {"bash", "python"}
    bin_dir = Path(sys.executable).parent
    environment = {"PATH": f"{bin_dir}:/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    for language, text in blocks:
        short = re.sub(r"--minutes \d+", "--minutes 0.05", text)
        command = ["bash", "-euo", "pipefail", "-c", short] if language == "bash" else [sys.executable, "-c", short]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{short}\n{done.stderr}"
    assert (tmp_path / "runs/mine/export/discriminator/config.json").is_file()
