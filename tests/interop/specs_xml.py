"""Our own protocol descriptions, rewritten in the XML shape that txAMQP loads.

txAMQP's packages lack the specification files its tests and programs load by path. Rather than
shipping other people's, we write one from `specs/` when a test runs; vendors' extensions stay out.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.interop.servers import ROOT


def _fields(source: ET.Element, into: ET.Element, domains: set[str]) -> None:
    for number, field in enumerate(source.iterfind("field"), 1):
        if field.get("extension"):
            continue
        kind = field.attrib["type"]
        attribute = "domain" if kind in domains else "type"
        name = field.get("name") or f"reserved-{number}"
        ET.SubElement(into, "field", {"name": name, attribute: kind})


def rewrite(ours: Path) -> str:
    """The description in `ours` as a document for `txamqp.spec.load`."""
    root = ET.parse(ours).getroot()
    attributes = {"major": root.attrib["major"], "minor": root.attrib["minor"]}
    out = ET.Element("amqp", {**attributes, "port": root.get("port", "5672")})
    for constant in root.iterfind("constants/constant"):
        if constant.get("extension"):
            continue
        kept = {"name": constant.attrib["name"], "value": constant.attrib["value"]}
        ET.SubElement(out, "constant", kept)
    domains = set()
    for domain in root.iterfind("domains/domain"):
        domains.add(domain.attrib["name"])
        ET.SubElement(out, "domain", dict(domain.attrib))
    for group in root.iter("class"):
        if group.get("extension"):
            continue
        number = group.attrib["number"]
        handler = "connection" if group.attrib["name"] == "connection" else "channel"
        known = {"name": group.attrib["name"], "index": number, "handler": handler}
        klass = ET.SubElement(out, "class", known)
        properties = group.find("properties")
        if properties is not None:
            _fields(properties, klass, domains)
        methods = [each for each in group.iterfind("method") if not each.get("extension")]
        names = {each.attrib["name"] for each in methods}
        for each in methods:
            shape = {"name": each.attrib["name"], "index": each.attrib["number"]}
            if each.get("content") == "yes":
                shape["content"] = "1"
            replies = [name for name in each.get("replies", "").split() if name in names]
            if replies:
                shape["synchronous"] = "1"
            method = ET.SubElement(klass, "method", shape)
            for reply in replies:
                ET.SubElement(method, "response", {"name": reply})
            _fields(each, method, domains)
    ET.indent(out)
    for method in out.iter("method"):
        method.text = method.text or "\n"  # the loader splits it into words
    return ET.tostring(out, encoding="unicode", xml_declaration=True) + "\n"


def write(version: str, to: Path) -> Path:
    """Write the document for `0-8` or `0-9` to `to`."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(rewrite(ROOT / "specs" / f"amqp-{version}.xml"))
    return to


if __name__ == "__main__":
    print(rewrite(Path(sys.argv[1])))
