"""The report as one HTML file, its pictures inside: it reads the Markdown that the report writes, and no more."""

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { border: 1px solid #8884; padding: 0.25rem 0.6rem; text-align: left; white-space: nowrap; }
img { max-width: 100%; background: white; }
td.beats { background: #2a93; } td.matches { background: #dc34; } td.short { background: #d334; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd; } a { color: #8bf; } }
"""
MARKS = {"▲": "beats", "≈": "matches", "▼": "short"}


def html_page(page: str, folder: Path) -> str:
    """page: the report in Markdown, its pictures by paths from `folder`"""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(page)
    body = "".join(_coloured(body))
    body = re.sub(r'<img src="([^"]+)"', lambda found: f'<img src="{_inside(folder / found.group(1))}"', body)
    title = html.escape(page.partition("\n")[0].removeprefix("# "))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}</body></html>\n'


def _coloured(body: str) -> Iterator[str]:
    """Cells by their marks"""
    for part in re.split(r"(?=<td>)", body):
        mark = next((name for sign, name in MARKS.items() if sign in part.partition("</td>")[0]), None)
        yield part.replace("<td>", f'<td class="{mark}">', 1) if mark and part.startswith("<td>") else part


def _inside(path: Path) -> str:
    """The picture as data, so that the page stands alone; its path where there is none"""
    if not path.is_file():
        return html.escape(str(path))
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
