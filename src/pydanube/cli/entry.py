"""Where the command `danube` begins: says what is missing when only the client is installed."""

import sys


def main() -> None:
    try:
        from .main import main as command
    except ModuleNotFoundError as error:
        print(f"Error: the command line needs the package {error.name!r}, which is not installed.", file=sys.stderr)
        print("What to do: pip install 'pydanube[server]'", file=sys.stderr)
        sys.exit(1)
    command()
