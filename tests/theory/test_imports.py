"""Theory is made of pure functions: nothing that trains or communicates is imported, not even indirectly."""

import ast
from pathlib import Path

import peerdescent

SOURCE = Path(peerdescent.__file__).parent


def imported(module: str) -> set[str]:
    """The modules of the library that one of them imports when it is loaded."""
    parts = module.split(".")[1:]
    path = SOURCE.joinpath(*parts, "__init__.py")
    path = path if path.is_file() else SOURCE.joinpath(*parts).with_suffix(".py")
    if not path.is_file():
        return set()  # a name in a module
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peerdescent"):
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return found - {"peerdescent"}


def test_theory_imports_nothing_that_trains_or_communicates() -> None:
    waiting = [f"peerdescent.theory.{path.stem}" for path in (SOURCE / "theory").glob("*.py")]
    reached: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += [*imported(module), module.rpartition(".")[0]] if module.count(".") > 1 else imported(module)
    packages = {".".join(module.split(".")[:2]) for module in reached}
    assert "peerdescent.algorithms" in packages
    assert not packages & {
        f"peerdescent.{name}" for name in ("training", "distributed", "optim", "kernels", "problems")
    }
    assert "peerdescent.mixing.network" not in reached
