"""The room has one door, and opening it is cheap."""

import subprocess
import sys

import pytest

import pydanube.records as records
from pydanube.model.errors import MissingCodec
from pydanube.records import Codec, Records, encode_batch


def test_all_is_complete_and_exists() -> None:
    visible = {
        name for name, value in vars(records).items() if not name.startswith("_") and not hasattr(value, "__spec__")
    }
    assert visible == set(records.__all__)


def test_importing_loads_no_optional_library() -> None:
    program = (
        "import sys, pydanube.records as r\n"
        "r.open_batch(r.encode_batch(r.Records([b'x'], keys=['k']), topic_id=1)).records()\n"
        "print(sorted({'numpy', 'pyarrow', 'lz4', 'zstandard'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(("codec", "library"), [(Codec.LZ4, "lz4.block"), (Codec.ZSTD, "zstandard")])
def test_a_missing_library_is_named(codec: Codec, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingCodec, match=r"pydanube\[compression\]"):
        encode_batch(Records([bytes(1000)]), topic_id=1, codec=codec)
