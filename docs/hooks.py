"""Hooks of `make docs`: pictures and CONTRIBUTING.md join the site, and a path that is not there is a warning.

`mkdocs build --strict` turns every warning into a failure, so that no page points at a file that was moved.
"""

import logging
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CODE_PATH = re.compile(
    r"(?<![\w./(-])((?:app|models|worker|client|tests|benchmarks|docker|docs|migrations)/[\w./-]*\w)"
)
"""A path as prose and diagrams name it, of a module also without its ending"""

log = logging.getLogger("mkdocs.hooks.docs")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures of benchmarks/results, which pages link to as ../benchmarks/results/..."""
    for path in sorted(RESULTS.rglob("*.png")):
        place = f"results/{path.relative_to(RESULTS).as_posix()}"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of docs/ into the site's own, and look for each path of the code that the page names"""
    if page.file.src_uri == "contributing.md":
        markdown = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    for named in CODE_PATH.findall(markdown):
        if not any((ROOT / f"{named}{ending}").exists() for ending in ("", ".py")):
            log.warning("%s names %s, which is not in the repository", page.file.src_uri, named)
    return markdown.replace("](../benchmarks/results/", "](results/")
