"""The tables of a page, as a test reads them."""

from __future__ import annotations

from html.parser import HTMLParser


class PageTables(HTMLParser):
    """The cells of each row of each table, by the table's caption."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.by_caption: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._within = self._text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th", "caption"):
            self._within, self._text = tag, ""

    def handle_data(self, data: str) -> None:
        self._text += data if self._within else ""

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._within = ""
            if tag == "caption":
                self.by_caption[self._text.strip()] = self._rows
            else:
                self._rows[-1].append(self._text.strip())
