"""What all tests share: properties are checked on the same examples every time, however busy the machine is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch is loaded, as the shell does it: in-process calls of verbs would warn otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Not conftests of their folders: modules of one name would hide each other from the type checker.
pytest_plugins = ["little_runs", "little_server", "page_fixtures"]

settings.register_profile("electralab", deadline=None, derandomize=True)
settings.load_profile("electralab")


@pytest.fixture(scope="module", autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    """A stage fixes threads and kernels for the whole process."""
    import torch

    threads, mode = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(mode)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine sentences, prepared: what little runs of pre-training learn from."""
    from little_pretraining import prepare_sentences

    return prepare_sentences(tmp_path_factory.mktemp("sentences"))
