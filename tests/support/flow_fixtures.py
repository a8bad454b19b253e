import os
import shutil
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import prepare_little


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `text.txt` and `data`, prepared once."""
    shell = Shell(tmp_path_factory.mktemp("prepared"))
    prepare_little(shell)
    return shell.folder


@pytest.fixture
def shell(tmp_path: Path, prepared: Path) -> Shell:
    """A fresh folder with prepared data in it."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def kills() -> int:
    """How many times a run is killed; ELECTRALAB_KILLS asks for more than a quick test does."""
    return int(os.environ.get("ELECTRALAB_KILLS", "6"))
