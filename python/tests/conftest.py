"""The package under test is the one that Python imports: of the tree by PYTHONPATH, or installed."""
import os
from pathlib import Path

import pytest

import pith

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def probe():
    return ROOT / "models" / "probe"


@pytest.fixture(scope="session")
def program():
    """The command line of the same build."""
    path = ROOT / os.environ.get("PITH", "build/pith")
    if not path.exists():
        pytest.skip("no program to compare with: PITH names it")
    return str(path)


@pytest.fixture(scope="session")
def engine(probe):
    with pith.Engine(probe, threads=2, kv="f32") as e:
        yield e


@pytest.fixture(scope="session")
def quantized(probe, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    pith.quantize(probe, out, recipe="rtn")
    return out
