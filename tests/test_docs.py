"""The examples of README and docs do what they say: each block marked `<!-- runs -->` is executed."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"<!-- runs(?:: (?P<file>\S+))? -->\n```python\n(?P<code>.*?)```", re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(match["code"], match["file"], id=f"{page.stem}-{place}")
    for page in PAGES
    for place, match in enumerate(BLOCK.finditer(page.read_text()))
]


@pytest.mark.parametrize(("code", "file"), BLOCKS)
def test_an_example_runs(code, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if file is not None:
        assert (ROOT / file).read_text() == code, f"{file} and the page differ"
        return
    script = tmp_path / "example.py"
    script.write_text(code)
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
