"""The files of examples/cluster and the commands of docs/cluster.md parse, and every flag that they use is there."""

import re
import shlex
import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.distributed.run import get_args_parser

from electralab.config import parse_overrides
from electralab.pretraining.settings import read_settings, resolve_pretrain
from electralab.shell.cli import build_parser, split_overrides

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "cluster"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
VERBS = build_parser()[1]
COMMAND = re.compile(r"\b(?:electralab|electra) (pretrain|prepare|plan)\b(.*)")


def read_kubernetes() -> dict[str, dict[str, Any]]:
    return {part["kind"]: part for part in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))}


def list_texts() -> dict[str, str]:
    """Every text with commands in it, lines that go on in the next joined; the YAML's list of words as one."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in SCRIPTS}
    (container,) = read_kubernetes()["Job"]["spec"]["template"]["spec"]["containers"]
    texts["kubernetes.yaml"] = shlex.join([*container["command"], *container["args"]])
    texts["cluster.md"] = "\n".join(re.findall(r"```(?:bash|text)\n(.*?)```", PAGE, re.DOTALL))
    return {name: text.replace("\\\n", " ") for name, text in texts.items()}


def flags_in(words: str) -> set[str]:
    return {word.partition("=")[0] for word in re.findall(r"(?<!\S)--[a-z][\w.=-]*", words)}


def known_flags(parser: ArgumentParser) -> set[str]:
    # torchrun takes a dash for an underscore.
    return {flag.replace("_", "-") for action in parser._actions for flag in action.option_strings}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_every_script(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert script.stat().st_mode & 0o111, "not executable"


@pytest.mark.parametrize("name", list_texts())
def test_every_flag_is_one_that_we_or_torchrun_have(name: str) -> None:
    seen = 0
    for line in list_texts()[name].splitlines():
        if line.lstrip().startswith("#"):
            continue
        _, torchrun, rest = line.partition("torchrun ")
        if torchrun:
            own, module, _ = rest.partition("--module electralab")
            assert module, line
            assert flags_in(own) <= known_flags(get_args_parser()), line
        for verb, words in COMMAND.findall(line):
            seen += 1
            plain, dotted = split_overrides(words.replace("=", " ").split())
            assert flags_in(" ".join(plain)) <= known_flags(VERBS[verb]), line
            if dotted:
                preset = plain[plain.index("--config") + 1] if "--config" in plain else "tiny"
                resolve_pretrain([read_settings(preset), parse_overrides(dotted)])
    # What slurm-prepare.sh submits is put together from pieces.
    assert seen or name == "slurm-prepare.sh"


def test_job_arrays_prepare_in_three_passes_and_a_last_look() -> None:
    text = (FOLDER / "slurm-prepare.sh").read_text(encoding="utf-8")
    assert re.findall(r"\$prepare( --pass \w+)?", text) == [" --pass count", " --pass merge", " --pass encode", ""]
    assert flags_in(" ".join(re.findall(r"\$prepare[^\"]*", text))) <= known_flags(VERBS["prepare"])


def test_pods_find_each_other() -> None:
    parts = read_kubernetes()
    service, job = parts["Service"], parts["Job"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    arguments = dict(word.removeprefix("--").split("=", 1) for word in container["args"] if "=" in word)
    name = job["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert arguments["rdzv-endpoint"] == f"{name}-0.{pod['subdomain']}:29500"
    assert job["spec"]["completionMode"] == "Indexed"
    assert int(arguments["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    ranks = int(arguments["nnodes"]) * int(arguments["nproc-per-node"])
    assert int(arguments["batch.slices"]) % ranks == 0
    assert pod["terminationGracePeriodSeconds"] > 60
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_container_copies_what_there_is_and_runs_without_rights() -> None:
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert [steps[0][0], steps[1][0]] == ["ARG", "FROM"]
    assert steps[1][1] == "${BASE}"
    for kind, rest in steps:
        if kind == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
    users = [rest for kind, rest in steps if kind == "USER"]
    assert users == ["1000"]
    assert "--constraint requirements.lock" in text
    image = text[text.index("-t ") + 3 :].split()[0]
    (container,) = read_kubernetes()["Job"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


def test_the_python_example_is_python() -> None:
    compile((FOLDER / "ray_train.py").read_text(encoding="utf-8"), "ray_train.py", "exec")
