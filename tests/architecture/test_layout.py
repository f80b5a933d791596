from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "operator" / "evenkeel"
FILE_LINES = 400
FUNCTION_LINES = 60
ROUTER_FORBIDDEN = ("scipy", "numpy", "pydantic", "pyarrow", "kopf", "kubernetes")


def sources() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if "_pb2" not in path.name]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = first.end_lineno if documented else node.lineno
            yield node.name, (node.end_lineno or 0) - (start or 0)


def test_source_root_is_not_a_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow the standard library's operator"


def test_standard_library_operator_is_not_shadowed() -> None:
    script = "import operator; print(operator.add(1, 2))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_file_is_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short_enough_to_read(path: Path) -> None:
    long = {name: lines for name, lines in functions(path) if lines > FUNCTION_LINES}
    assert long == {}


def test_every_folder_is_a_package_with_a_docstring() -> None:
    for folder in {path.parent for path in sources()}:
        initial = folder / "__init__.py"
        assert initial.is_file(), folder
        assert ast.get_docstring(ast.parse(initial.read_text())), initial


def test_router_imports_nothing_heavy() -> None:
    script = (
        f"import sys, evenkeel.router;print([name for name in {ROUTER_FORBIDDEN!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
