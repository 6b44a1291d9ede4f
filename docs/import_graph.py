"""Draw the packages and the imports between them as docs/import_graph.svg, from the code as it is.

A node is a folder of the code, or a file that stands alone in app/ or models/. A line leads from who imports to what
is imported, downwards. Lines that a longer way implies are left out, as are imports inside functions: they are rare,
and each is there so that something starts without loading something large.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {"app": ROOT / "app", "models": ROOT / "models", "worker": ROOT / "worker"}
CLIENT = ROOT / "client" / "recourse_client"
COLOURS = {"app": "#3f6fb5", "models": "#3d8a5f", "worker": "#a86a2c", "recourse_client": "#7d5aa6"}
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT = 1180, 74, 126, 30
MODELS_SHARE = 0.46
"""The tower of models stands in this share of the picture, on the left; app, worker and client on the right."""
Graph = dict[str, set[str]]


def node_of(module: str) -> str:
    """The node of a module: app.explain.engine.batch -> app/explain/engine, models.config -> models/config"""
    parts = module.split(".")
    if parts[0] in ("worker", "recourse_client"):
        return parts[0]
    return "/".join(parts[:3] if parts[:3] == ["app", "explain", "engine"] else parts[:2])


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the code, with its file"""
    for name, folder in {**FOLDERS, "recourse_client": CLIENT}.items():
        for path in sorted(folder.rglob("*.py")):
            yield ".".join((name, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"), path


def imported(module: str, path: Path) -> Iterator[str]:
    """The modules that a file imports when it is loaded, relative imports resolved"""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
            base = ".".join([*above, *([statement.module] if statement.module else [])])
            yield from (f"{base}.{alias.name}" for alias in statement.names)


def read_graph() -> Graph:
    """node -> the nodes that it imports"""
    known = dict(modules())
    nodes = {name: node_of(name) for name in known if "." in name}
    graph: Graph = {node: set() for node in nodes.values()}
    for name, path in known.items():
        for target in imported(name, path):
            found = target if target in nodes else target.rpartition(".")[0]
            if name in nodes and found in nodes and nodes[found] != nodes[name]:
                graph[nodes[name]].add(nodes[found])
    return graph


def rows_of(graph: Graph, order: list[str]) -> dict[str, int]:
    """The row of each node, 0 at the bottom: one above the highest that it imports"""
    rows: dict[str, int] = {}
    for node in order:
        rows[node] = max((rows[other] + 1 for other in graph[node]), default=0)
    return rows


def reduced(graph: Graph, order: list[str]) -> Graph:
    """The graph without the lines that a longer way implies"""
    below: Graph = {}
    for node in order:
        below[node] = graph[node].union(*(below[other] for other in graph[node]))
    return {node: {o for o in seen if not any(o in below[p] for p in seen)} for node, seen in graph.items()}


def places_of(rows: dict[str, int], lines: Graph) -> dict[str, tuple[float, float]]:
    """The middle of each node's box: models on the left, the others on the right, each near what it imports there"""
    height, places = max(rows.values()), dict[str, tuple[float, float]]()
    for row in range(height + 1):
        for left, right, in_models in ((0.0, MODELS_SHARE * WIDTH, True), (MODELS_SHARE * WIDTH, float(WIDTH), False)):
            here = [node for node in rows if rows[node] == row and node.startswith("models/") == in_models]
            here.sort(key=lambda node: (_wish(node, lines, places, in_models), node))
            for position, node in enumerate(here):
                across = left + (position + 0.5) * (right - left) / len(here)
                places[node] = (across, (height - row + 0.5) * ROW)
    return places


def _wish(node: str, lines: Graph, places: dict[str, tuple[float, float]], in_models: bool) -> float:
    """Where a node would stand for the shortest lines to what it imports in its own tower"""
    across = [places[other][0] for other in lines[node] if other.startswith("models/") == in_models]
    return sum(across) / len(across) if across else WIDTH / 2


def draw(lines: Graph, places: dict[str, tuple[float, float]]) -> str:
    """The picture as SVG, with colours that can be read on a light and on a dark page"""
    tall = max(y for _, y in places.values()) + ROW / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall:.0f}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="Packages and their imports, importers above what they import">'
    ]
    for node, others in sorted(lines.items()):
        x, y = places[node]
        for other in sorted(others):
            to_x, to_y = places[other]
            start, end, bend = y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2, ROW / 2
            curve = f"M{x:.0f} {start:.0f}C{x:.0f} {start + bend:.0f} {to_x:.0f} {end - bend:.0f} {to_x:.0f} {end:.0f}"
            colour = COLOURS[node.split("/")[0]]
            parts.append(f'<path d="{curve}" fill="none" stroke="{colour}" stroke-opacity=".55"/>')
    for node, (x, y) in sorted(places.items()):
        corner = f'x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}"'
        colour = COLOURS[node.split("/")[0]]
        parts.append(f'<rect {corner} width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="{colour}"/>')
        parts.append(f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#fff">{node}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the picture, or name the packages that import each other in a circle."""
    graph = read_graph()
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        sys.exit(f"import_graph: these import each other: {' -> '.join(error.args[1])}")
    lines = reduced(graph, order)
    (ROOT / "docs" / "import_graph.svg").write_text(draw(lines, places_of(rows_of(graph, order), lines)))


if __name__ == "__main__":
    main()
