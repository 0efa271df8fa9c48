"""The command `sigmadmm`: exit codes, streams and layout. The numbers are tested in test_demo.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import pytest

import sigmadmm
from sigmadmm import bench, cli, datasets, demo, demo_report

TINY = (
    demo.Task("x^2", datasets.square, (4, 4), 1, 2.53e-9, n=20),
    demo.Task("uv", datasets.product, (4, 4), 1, 2.62e-9, n=20),
)
NUMBER = re.compile(r"\d\.\d\de[+-]\d\d")


@pytest.fixture(autouse=True)
def _small_and_plain(monkeypatch):
    monkeypatch.setattr(demo, "TASKS", TINY)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def sigmadmm_command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return 0 if end.value.code is None else int(end.value.code)


# Without typer and rich.


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_or_rich_one_sentence_says_what_to_install(missing, monkeypatch, capsys):
    if missing == "rich":
        monkeypatch.setitem(sys.modules, "typer", SimpleNamespace())
    monkeypatch.setitem(sys.modules, missing, None)
    assert sigmadmm_command("demo") == 1
    output = capsys.readouterr()
    assert output.err == 'the command needs typer and rich: pip install "sigmadmm[cli]"\n'
    assert output.out == ""


def test_the_modules_import_without_typer_and_rich():
    code = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None; "
        "import sigmadmm.cli, sigmadmm.demo; sys.argv = ['sigmadmm']; sigmadmm.cli.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == 'the command needs typer and rich: pip install "sigmadmm[cli]"\n'


# With them.


@pytest.fixture
def _installed():
    pytest.importorskip("typer")
    pytest.importorskip("rich")


pytestmark_installed = pytest.mark.usefixtures("_installed")


@pytestmark_installed
def test_the_version(capsys):
    assert sigmadmm_command("--version") == 0
    assert capsys.readouterr().out == f"sigmadmm {sigmadmm.__version__}\n"


@pytestmark_installed
def test_help_names_the_commands_and_their_options(capsys):
    assert sigmadmm_command("--help") == 0
    overview = capsys.readouterr().out
    assert "demo" in overview
    assert "bench" in overview
    assert sigmadmm_command("demo", "--help") == 0
    options = capsys.readouterr().out
    assert all(option in options for option in ("--seed", "--iterations", "--json"))
    assert "2000" in options


@pytestmark_installed
def test_python_m_sigmadmm_is_the_same_command():
    run = subprocess.run([sys.executable, "-m", "sigmadmm", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"sigmadmm {sigmadmm.__version__}\n"


@pytestmark_installed
def test_bench_gets_all_its_arguments(monkeypatch):
    seen = []
    monkeypatch.setattr(bench, "main", seen.append)
    assert sigmadmm_command("bench", "--threads", "2", "--json", "more", "--help") == 0
    assert seen == [["--threads", "2", "--json", "more", "--help"]]


@pytestmark_installed
def test_demo_prints_table_sentences_and_the_next_lines(capsys):
    assert sigmadmm_command("demo", "--iterations", "3", "--seed", "5") == 0
    output = capsys.readouterr()
    assert output.err == ""
    text = " ".join(output.out.split())
    assert "3 of Algorithm 1, where the paper ran 2000 epochs" in text
    assert "Seed 5" in text
    assert all(name in text for name in ("2.53e-09", "2.62e-09"))
    for finding in demo_report.findings(demo.run(TINY, iterations=3, seed=5)):
        assert " ".join(finding.split()) in text
    assert textwrap.dedent(output.out).rstrip().endswith(textwrap.indent(demo_report.OWN_DATA, "  "))


@pytestmark_installed
@pytest.mark.parametrize("columns", [80, 120])
def test_demo_fits_the_width_and_truncates_no_number(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert sigmadmm_command("demo", "--iterations", "1") == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= columns
    assert "…" not in output
    assert "\x1b" not in output
    rows = [line for line in output.splitlines() if line.startswith(("x^2 ", "uv "))]
    assert [len(NUMBER.findall(row)) for row in rows] == [3, 2, 2, 3, 3, 2, 2, 3, 1] * 2
    assert sum("random features + ridge" in row for row in rows) == 4


@pytestmark_installed
def test_a_narrow_terminal_folds_names_and_keeps_numbers(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    cli._show(_console(), [RECORD])
    output = capsys.readouterr().out
    assert "1.23e-09" in output
    assert "4.56e-03" in output
    assert "7.89e-01" in output
    assert "…" not in output


RECORD = demo.Record("x^2", 8.0, demo.ALGORITHM, 1.23e-9, 45, 4.56e-3, 7.89e-1, 50, "max_iter", 1.5, 0.087, 2.53e-9)


def _console():
    from rich.console import Console

    return Console()


@pytestmark_installed
def test_a_row_shows_the_record(capsys):
    ridge = replace(RECORD, method=demo.RIDGE, best_mse=None, best_iteration=None, seconds=0.004)
    cli._show(_console(), [RECORD, ridge])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "x^2 8 Algorithm 1 1.23e-09 45 4.56e-03 7.89e-01 1.50" in lines
    assert "x^2 8 random features + ridge - - 4.56e-03 7.89e-01 0.00" in lines
    assert "x^2 paper: Algorithm 1 2.53e-09" in lines


@pytestmark_installed
def test_json_is_all_there_is_on_standard_output(capsys):
    assert sigmadmm_command("demo", "--json", "--iterations", "2", "--seed", "1") == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert output.err == ""
    assert document["settings"]["iterations"] == 2
    assert document["settings"]["seed"] == 1
    assert len(document["records"]) == 16
    assert document["findings"]


@pytestmark_installed
def test_wrong_options_are_refused(capsys):
    assert sigmadmm_command("demo", "--iterations", "0") == 2
    assert sigmadmm_command("demo", "--seed", "-1") == 2
    assert sigmadmm_command("dmeo") == 2
    assert capsys.readouterr().out == ""


@pytestmark_installed
def test_invalid_input_is_one_line_and_exit_code_2(capsys):
    assert sigmadmm_command("demo", "--json", "--seed", str(2**70)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"sigmadmm: seed=\d+ must be .*\n", output.err)


@pytestmark_installed
def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.baselines, "lbfgs", interrupted)
    assert sigmadmm_command("demo", "--iterations", "1", "--json") == 130
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "sigmadmm: interrupted before the end.\n"


@pytestmark_installed
def test_no_bar_where_standard_error_is_no_terminal():
    assert type(cli._watch()) is demo.Watch


@pytest.fixture
def _same_console_afterwards(_installed):
    """rich's global console is as it was."""
    import rich

    before = dict(vars(rich.get_console()))
    yield
    vars(rich.get_console()).update(before)


@pytest.mark.usefixtures("_same_console_afterwards")
def test_bars_go_to_standard_error_so_that_standard_output_stays_clean(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert sigmadmm_command("demo", "--json", "--iterations", "2") == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)["records"]) == 16
    assert "2/2" in output.err
    assert f"uv x1: {demo.LBFGS}" in output.err
