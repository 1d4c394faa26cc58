"""Revisions: one file for wire formats that differ in a few elements, marked where they do."""

import xml.etree.ElementTree as ET

from specs.codegen.ir import SpecError


def revisions_of(root: ET.Element) -> tuple[str, ...]:
    """The names of the revisions in a file; none if it holds a single version."""
    return tuple(root.get("revisions", "").split())


def revise(root: ET.Element, revision: str, where: str) -> None:
    """Remove the elements and replies that are marked for other revisions. The protocol takes the
    name of the revision. Raises ``SpecError``."""
    known = revisions_of(root)
    if revision not in known and (known or revision):
        listed = ", ".join(known) or "none"
        raise SpecError(f"{where}: no revision {revision!r} (there are {listed})")
    if revision:
        root.set("name", revision)
    _prune(root, revision, known, where)


def _prune(element: ET.Element, revision: str, known: tuple[str, ...], where: str) -> None:
    for child in list(element):
        if not _marked(child, "in", revision, known, where):
            element.remove(child)
            continue
        if not _marked(child, "replies-in", revision, known, where):
            child.attrib.pop("replies", None)
        _prune(child, revision, known, where)


def _marked(
    element: ET.Element, mark: str, revision: str, known: tuple[str, ...], where: str
) -> bool:
    """Whether an element, or its replies, belong to this revision; the mark is taken away."""
    text = element.attrib.pop(mark, None)
    if text is None:
        return True
    names = text.split()
    for name in names:
        if name not in known:
            raise SpecError(f"{where}: <{element.tag}> {mark}: no revision {name!r}")
    return revision in names
