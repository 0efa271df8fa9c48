"""The package as it is installed: version, typing marker, entry points, and what importing it costs."""

import importlib
import pkgutil
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import sigmadmm

ROOT = Path(__file__).parents[1]
OPTIONAL = ("sklearn", "pandas", "matplotlib", "rich", "typer", "scipy")
MODULES = [module.name for module in pkgutil.walk_packages(sigmadmm.__path__, "sigmadmm.")]


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def test_version_is_that_of_the_installed_metadata():
    assert sigmadmm.__version__ == metadata.version("sigmadmm")


def test_installed_version_is_that_of_the_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sigmadmm.__version__ == project["version"], "reinstall: the metadata is of an older version"


def test_type_information_ships():
    assert resources.files("sigmadmm").joinpath("py.typed").is_file()


def test_runtime_needs_numpy_and_torch_only():
    required = [line for line in metadata.requires("sigmadmm") or [] if "extra ==" not in line]
    assert sorted(line.split(">")[0].split("<")[0].strip() for line in required) == ["numpy", "torch"]


def test_public_names_exist():
    assert not [name for name in sigmadmm.__all__ if not hasattr(sigmadmm, name)]
    assert len(set(sigmadmm.__all__)) == len(sigmadmm.__all__)


def test_module_runs_as_a_command():
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    run = python("-m", "sigmadmm", "--version")
    assert run.returncode == 0, run.stderr
    assert sigmadmm.__version__ in run.stdout


def test_command_without_its_packages_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from sigmadmm.cli import main; main(['--version'])"
    run = python("-c", code)
    assert run.returncode == 1
    assert "sigmadmm[cli]" in run.stderr
    assert "Traceback" not in run.stderr


def test_import_takes_no_optional_package():
    run = python("-c", f"import sys, sigmadmm; print([name for name in {OPTIONAL} if name in sys.modules])")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


def test_import_prints_and_warns_nothing():
    run = python("-W", "error::DeprecationWarning:sigmadmm", "-c", "import sigmadmm")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("name", [name for name in MODULES if name != "sigmadmm.__main__"])  # that one runs the command
def test_every_module_imports(name):
    importlib.import_module(name)
