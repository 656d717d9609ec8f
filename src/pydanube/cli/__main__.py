"""`python -m pydanube.cli`: the command where it is not on the path, as for processes that it starts itself."""

from .main import main

main(prog_name="danube")
