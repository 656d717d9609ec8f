"""Named brokers in the user's configuration folder, and which broker a command talks to.

`--url` comes first, then DANUBE_URL, then the context in use, then the broker on this machine.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .errors import Refused

URL_DEFAULT = "danube://127.0.0.1:6651"
URL_VARIABLE = "DANUBE_URL"


class Contexts(msgspec.Struct, omit_defaults=True):
    current: str | None = None
    urls: dict[str, str] = {}


def contexts_file(environment: Mapping[str, str], home: Path) -> Path:
    """Where the XDG specification wants it; what is not absolute it tells to ignore."""
    folder = environment.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if folder.startswith("/") else home / ".config") / "danube" / "contexts.json"


def own_contexts_file() -> Path:
    return contexts_file(os.environ, Path.home())


def load(path: Path) -> Contexts:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (OSError, msgspec.MsgspecError) as error:
        raise Refused(f"{path} cannot be read: {error}", "repair or remove that file") from error


def save(path: Path, contexts: Contexts) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}", "check its owner and permissions") from error


def resolve(url: str | None, environment: Mapping[str, str], contexts: Contexts) -> str:
    chosen = url or environment.get(URL_VARIABLE)
    if chosen:
        return contexts.urls.get(chosen, chosen)  # a context's name will do for a URL
    if contexts.current is not None:
        return contexts.urls[contexts.current]
    return URL_DEFAULT
