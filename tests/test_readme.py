"""Documents stay true: the README's example runs, and what documents point at is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^]]*\]\(([^)#]+)[^)]*\)")
NAMED_PATH = re.compile(r"`((?:src|tests|docs|\.ci)/[\w./-]+)`")


def marked(text: str, name: str) -> str:
    """The code between the markers of a name."""
    pattern = rf"<!-- {name}: begin -->\n```\w+\n(.*?)```\n<!-- {name}: end -->"
    found = re.findall(pattern, text, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    example = tmp_path / "example.py"
    example.write_text(marked(readme, "example"))
    run = subprocess.run([sys.executable, "-W", "error", example], cwd=tmp_path, capture_output=True, text=True)
    assert (run.stderr, run.stdout) == ("", marked(readme, "output"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []
    assert [name for name in NAMED_PATH.findall(text) if not (ROOT / name).exists()] == []


def test_every_decision_has_its_parts() -> None:
    decisions = sorted(ROOT.glob("docs/decisions/*.md"))
    numbers = [path.name[:4] for path in decisions]
    assert numbers == [f"{number:04d}" for number in range(1, len(decisions) + 1)]
    for path in decisions:
        text = path.read_text()
        assert text.startswith(f"# {path.name[:4]}: ")
        assert re.findall("^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Alternatives", "Consequences"]
