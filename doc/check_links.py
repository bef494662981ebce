"""Check the links between built pages: ``python doc/check_links.py doc/_build/html``.

Every link and picture of a page has to lead to a file among the pages, and to an anchor of it if it
names one. What a page loads (scripts, styles, fonts, pictures) has to come with the pages: they are
read without the internet, too.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in LOADED and values.get(LOADED[tag]) and values.get("rel") != "canonical":
            self.loaded.append(values[LOADED[tag]])


page_of = cache(Page)


def problem(root: Path, page: Path, link: str, loaded: bool) -> str | None:
    """Return what is wrong with a link of a page, or None."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from the internet" if loaded else None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if root not in target.parents:
        return "leads outside of the pages"
    if not target.is_file():
        return "leads nowhere"
    if target.suffix == ".html" and unquote(parts.fragment) not in page_of(target).anchors:
        return "names an anchor that is not there"
    return None


def problems(root: Path) -> list[str]:
    """Return a line for each link that is wrong."""
    root = root.resolve()
    found = []
    for path in sorted(root.rglob("*.html")):
        if "_static" in path.relative_to(root).parts:
            continue  # parts of the theme, not pages
        page = page_of(path)
        for loaded, links in ((False, page.links), (True, page.loaded)):
            for link in dict.fromkeys(links):
                if wrong := problem(root, path, link, loaded):
                    found.append(f"{path.relative_to(root)}: {link} {wrong}")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]))
    if not any(Path(sys.argv[1]).glob("*.html")):
        lines.append(f"{sys.argv[1]} holds no pages")
    print("\n".join(lines) or "all links lead somewhere")
    sys.exit(bool(lines))
