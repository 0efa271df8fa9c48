"""The examples of README.md and docs/ run as written, block after block, in one namespace per document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document):
    """(line number, source) of every ```python block."""
    text = document.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_examples_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "example"}
    for line, source in blocks(document):
        exec(compile("\n" * line + source, str(document), "exec"), namespace)


def test_every_opened_block_is_found():
    for document in DOCUMENTS:
        assert len(blocks(document)) == document.read_text(encoding="utf-8").count("```python")


def test_readme_has_examples():
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda document: document.name)
def test_links_lead_to_files(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_readme_names_every_column_of_the_history():
    import sigmadmm

    run = sigmadmm.train([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], hidden=(2,), max_iter=1)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [column for column in run.history if f"`{column}`" not in text]


def test_readme_names_every_status():
    import sigmadmm

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [status for status in sigmadmm.Status if f"`{status}`" not in text]


def test_the_comparison_in_the_documentation_is_the_one_in_the_results():
    table = (ROOT / "results" / "methods" / "1-thread.md").read_text(encoding="utf-8")
    assert table in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_accuracies_in_the_documentation_are_those_in_the_results(device):
    text = (ROOT / "results" / "accuracy" / f"{device}-full.md").read_text(encoding="utf-8")
    summary = next(part for part in text.split("\n\n") if part.startswith("| data |"))
    assert summary.count("\n") > 1
    assert summary in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
