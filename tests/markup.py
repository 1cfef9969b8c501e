"""What is wrong with a page: under the strictest CSP, or as a document that all can use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {
    "area",
    "base",
    "br",
    "wbr",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
}
# Shapes of SVG may be written as empty elements.
_NO_LABEL = {"hidden", "submit", "button", "reset", "image"}


@dataclass(eq=False)
class Element:
    tag: str
    attrs: dict[str, str]
    parent: Element | None
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def within(self) -> Iterator[Element]:
        for child in self.children:
            yield child
            yield from child.within()

    def around(self) -> Iterator[Element]:
        if self.parent is not None:
            yield self.parent
            yield from self.parent.around()

    @property
    def all_text(self) -> str:
        return "".join([self.text, *(child.all_text for child in self.children)])

    def __str__(self) -> str:
        return f"<{self.tag} {self.attrs}>"


class Page(HTMLParser):
    """The elements of a page, and in `unbalanced` the end tags that end nothing."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.root = self._open = Element("", {}, None)
        self.unbalanced: list[str] = []
        self.feed(markup)
        self.close()
        if self._open is not self.root:
            self.unbalanced.append(str(self._open))

    def handle_starttag(self, tag, attrs):
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self._open.children.append(element)
        if tag not in _VOID:
            self._open = element

    def handle_startendtag(self, tag, attrs):
        self._open.children.append(Element(tag, {k: v or "" for k, v in attrs}, self._open))

    def handle_endtag(self, tag):
        if tag in _VOID:
            return
        if self._open.tag != tag or self._open.parent is None:
            self.unbalanced.append(f"</{tag}> within {self._open}")
            return
        self._open = self._open.parent

    def handle_data(self, data):
        self._open.text += data


def refused_by_csp(page: Page) -> list[str]:
    """Whatever `default-src 'self'` would not run, apply or load."""
    return [str(one) for one in page.root.within() if _is_inline(one) or _is_foreign(one)]


def _is_inline(element: Element) -> bool:
    if element.tag == "style" or any(
        name == "style" or name.startswith("on") for name in element.attrs
    ):
        return True
    is_data = element.attrs.get("type") == "application/json"
    return element.tag == "script" and "src" not in element.attrs and not is_data


def _is_foreign(element: Element) -> bool:
    loads = element.tag in ("script", "img", "iframe", "embed", "object", "source", "use", "form")
    loads |= element.tag == "link" and element.attrs.get("rel") != "canonical"
    names = ("src", "href", "xlink:href", "action", "formaction", "data", "srcset")
    addresses = [element.attrs[name] for name in names if name in element.attrs]
    if any(one.strip().lower().startswith(("javascript:", "data:")) for one in addresses):
        return True
    return loads and any("//" in one for one in addresses)


def flaws(page: Page) -> list[str]:
    """What stands in the way of a keyboard or of a screen reader."""
    return [
        *(f"unbalanced: {one}" for one in page.unbalanced),
        *_repeated_ids(page),
        *_lost_references(page),
        *_without_label(page),
        *_headings_out_of_order(page),
        *_tables_without_scope(page),
        *_images_without_name(page),
        *_landmarks(page),
    ]


def _repeated_ids(page: Page) -> Iterator[str]:
    ids = Counter(one.attrs["id"] for one in page.root.within() if "id" in one.attrs)
    yield from (f"id twice: {name!r}" for name, times in ids.items() if times > 1)


def _lost_references(page: Page) -> Iterator[str]:
    ids = {one.attrs.get("id") for one in page.root.within()}
    for one in page.root.within():
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            for target in one.attrs.get(name, "").split():
                if target not in ids:
                    yield f"{name} of what is not there: {one}"


def _without_label(page: Page) -> Iterator[str]:
    labelled = {one.attrs.get("for") for one in page.root.within() if one.tag == "label"}
    for one in page.root.within():
        if one.tag in ("button", "a", "summary"):
            has_name = one.all_text.strip() or _has_name(one) or _has_named_part(one)
            if not has_name and (one.tag != "a" or "href" in one.attrs):
                yield f"no name: {one}"
        elif one.tag in ("input", "select", "textarea"):
            inside = any(outer.tag == "label" for outer in one.around())
            needs_none = one.attrs.get("type") in _NO_LABEL
            if not (needs_none or inside or _has_name(one) or one.attrs.get("id") in labelled):
                yield f"no label: {one}"


def _has_name(element: Element) -> bool:
    names = ("aria-label", "aria-labelledby", "title", "alt")
    return any(element.attrs.get(name, "").strip() for name in names)


def _has_named_part(element: Element) -> bool:
    return any(_has_name(one) for one in element.within())


def _headings_out_of_order(page: Page) -> Iterator[str]:
    before = 0
    for one in _content(page).within():
        if len(one.tag) == 2 and one.tag[0] == "h" and one.tag[1].isdigit():
            level = int(one.tag[1])
            if level > before + 1:
                yield f"h{level} after h{before}: {one.all_text.strip()!r}"
            before = level


def _content(page: Page) -> Element:
    return next((one for one in page.root.within() if one.tag == "main"), page.root)


def _tables_without_scope(page: Page) -> Iterator[str]:
    for table in page.root.within():
        if table.tag != "table" or "claimq-table" not in table.attrs.get("class", "").split():
            continue
        headings = [one for one in table.within() if one.tag == "th"]
        yield from (f"no scope: {one}" for one in headings if "scope" not in one.attrs)
        if not headings:
            yield f"no headings: {table}"


def _images_without_name(page: Page) -> Iterator[str]:
    for one in page.root.within():
        if one.tag == "svg" and one.attrs.get("role") == "img":
            titles = [child for child in one.children if child.tag == "title"]
            if not (titles or _has_name(one)):
                yield f"no name: {one}"
        if one.tag == "img" and "alt" not in one.attrs:
            yield f"no alt: {one}"


def _landmarks(page: Page) -> Iterator[str]:
    found = list(page.root.within())
    if sum(one.tag == "main" for one in found) > 1:
        yield "several main"
    for one in found:
        if one.tag == "nav" and not _has_name(one):
            yield f"nav without a name: {one}"
