"""A broker in a process of its own, for commands that bring one along: the bench and the demonstration."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from .errors import Refused
from .ports import Ports, read_ports

_STOP_SECONDS = 30.0


class BrokerProcess:
    """Started when it is made, on free ports unless told otherwise; returns when it can be reached."""

    def __init__(self, data_dir: Path, *options: str, native_port: int = 0, http_port: int = 0) -> None:
        command = [sys.executable, "-m", "pydanube.cli", "serve", "--data-dir", str(data_dir)]
        command += ["--native-port", str(native_port), "--http-port", str(http_port), *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []  # until it was up
        self.ports = self._wait(data_dir)

    def _wait(self, data_dir: Path) -> Ports:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.rstrip())
            if " is up." in line:
                ports = read_ports(data_dir)
                assert ports is not None, "ports are written before the greeting"
                return ports
        self._end()
        raise Refused("the broker did not start", " ".join(self.said) or "start 'danube serve' by hand to see why")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return self.ports.url

    def stop(self) -> int:
        """In good order; returns its exit status."""
        self._process.terminate()
        return self._end()

    def kill(self) -> None:
        """As if the machine had failed, as far as the process is concerned."""
        self._process.kill()
        self._end()

    def _end(self) -> int:
        status = self._process.wait(_STOP_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def __enter__(self) -> "BrokerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.stop()
