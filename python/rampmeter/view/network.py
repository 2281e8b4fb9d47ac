"""The network as far as captures of links show it: hosts, routers, traced links, and what was not traced between them.

Each pair of hosts crosses links in the order in which its first packet came to them. Two links meet in a router if that
packet came to the second when it left the first. In simulated runs the ports say which flow it was, and the flow's
trace says what its hosts are called; otherwise hosts have their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from rampmeter.view.model import Link, TraceError
from rampmeter.view.sources import Source

SAME = 1e-6
"""Two times that differ by less, in seconds, are those of one event."""
MAX_DELAY = 1.0
"""How long a flow's first packet may take to a link, in seconds."""

PORTS = 1000
"""The number of ports that the flows of a simulated run have."""
CLIENT = re.compile(r"(\d+)-.*\.client")
"""The name of the trace of the end that opens a flow, with the flow's index."""

HOST = "host"
Place = tuple[str, str]
"""`HOST` and its address, or the name of a link and an end of it."""


@dataclass(frozen=True)
class Opening:
    """The begin of a flow: who opened it, to whom, and when, in seconds."""

    opener: str
    other: str
    time: float


@dataclass
class Node:
    """A router, or hosts of one kind at one place."""

    name: str
    """Empty for routers."""
    layer: int
    """From the first sender, which is at 0, to the right."""


@dataclass
class Edge:
    """A link with a trace, by the number of its source, or links without a trace between two nodes."""

    source: int | None
    near: int
    far: int
    max_rate: float = 0.0
    """In bits per second."""
    max_queue: float = 0.0
    """In packets."""


class Places:
    """Which places are one node."""

    def __init__(self) -> None:
        """Start with each place for itself."""
        self.same: dict[Place, Place] = {}

    def node(self, place: Place) -> Place:
        """Return the place that stands for the node of this one."""
        while place in self.same:
            place = self.same[place]
        return place

    def join(self, one: Place, other: Place) -> None:
        """Make the nodes of two places one."""
        if self.node(one) != self.node(other):
            self.same[self.node(other)] = self.node(one)


def links_beside(sources: list[Source], index: int) -> dict[int, Link]:
    """Return the links in the directory of a source, by their numbers. Broken ones say why when they are shown."""
    own = sources[index]
    beside = {number: each for number, each in enumerate(sources) if each.is_link and each.group == own.group}
    links = {}
    for number, each in beside.items():
        with suppress(TraceError):
            links[number] = each.shown().source
    return {number: link for number, link in links.items() if isinstance(link, Link)}


def openings_beside(sources: list[Source], index: int) -> dict[int, Opening]:
    """Return how the flows in the directory of a source opened, by their index modulo 1000, as their traces say."""
    own = sources[index]
    found = {}
    for each in sources:
        if each.group == own.group and (match := CLIENT.fullmatch(each.name)):
            hosts = re.search(r"(\S+) > (\S+)$", each.title)
            if hosts:
                found[int(match[1]) % PORTS] = Opening(hosts[1], hosts[2], each.begin)
    return found


def network(links: dict[int, Link], openings: dict[int, Opening]) -> tuple[list[Node], list[Edge]]:
    """Return the graph of links, by the numbers of their sources. `openings`: by the flow's index modulo 1000."""
    names = host_names(links.values(), openings)
    places = Places()
    known = {link.name for link in links.values()}
    for name in (name for name in known if f"{name}.reverse" in known):
        places.join((name, "far"), (f"{name}.reverse", "near"))
        places.join((name, "near"), (f"{name}.reverse", "far"))
    pairs = dict.fromkeys(pair for link in links.values() for pair in link.pairs)
    first = {
        pair: min((link.pairs[pair].entered for link in links.values() if pair in link.pairs), default=0.0)
        for pair in pairs
    }
    paths = [
        path
        for pair in sorted(pairs, key=lambda pair: first[pair])
        if (path := path_of(pair, links.values(), names, places))
    ]
    ends = {number: ((link.name, "near"), (link.name, "far")) for number, link in links.items()}
    traced = {frozenset(map(places.node, both)) for both in ends.values()}

    def between() -> set[frozenset[Place]]:
        return {frozenset(map(places.node, both)) for path in paths for both in pairwise(path)} - traced

    # Hosts of one kind with the same neighbours are one node.
    neighbours: dict[Place, set[Place]] = {}
    for one, other in (tuple(both) for both in between() if len(both) == 2):
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    alike: dict[tuple[str, frozenset[Place]], Place] = {}
    for place, others in neighbours.items():
        if place[0] == HOST and not any(place in both for both in traced):
            places.join(alike.setdefault((kind(place, names), frozenset(others)), place), place)

    layer = layers([[node for node, _ in groupby(map(places.node, path))] for path in paths])
    index = {node: number for number, node in enumerate(layer)}
    hosts: dict[Place, set[str]] = {node: set() for node in layer}
    for path in paths:
        for place in (path[0], path[-1]):
            hosts[places.node(place)].add(place[1])
    edges = []
    for number, link in links.items():
        near, far = (index.get(places.node(end)) for end in ends[number])
        if near is not None and far is not None:  # something has crossed it
            most = (float(column.max(initial=0.0)) for column in (link.rates["value"], link.offered["queued"]))
            edges.append(Edge(number, near, far, *most))
    edges += [Edge(None, *sorted(map(index.__getitem__, both))) for both in between() if len(both) == 2]
    return [Node(label(hosts[node], names), layer[node]) for node in layer], edges


def path_of(pair: tuple[bytes, bytes], links: Iterable[Link], names: dict[str, str], places: Places) -> list[Place]:
    """Return the places that packets from one host to another cross, and join those that are one node."""
    first, last = ((HOST, address(host)) for host in pair)
    hops = [(link.pairs[pair], link.name) for link in links if pair in link.pairs]
    hops = sorted((hop for hop in hops if hop[0].entered >= 0), key=lambda hop: hop[0].entered)
    if not hops:
        return []
    for (before, one), (after, other) in pairwise(hops):
        if abs(before.left - after.entered) < SAME:
            places.join((one, "far"), (other, "near"))
    # The link from a host has the name of the host.
    if names.get(first[1]) == hops[0][1]:
        places.join(first, (hops[0][1], "near"))
    if f"{names.get(last[1])}.reverse" == hops[-1][1]:
        places.join(last, (hops[-1][1], "far"))
    return [first, *((name, end) for _, name in hops for end in ("near", "far")), last]


def layers(paths: list[list[Place]]) -> dict[Place, int]:
    """Place the nodes of the longest paths first, the others beside those that they have in common."""
    found: dict[Place, int] = {}
    for path in sorted(paths, key=len, reverse=True):
        fixed = [at for at, node in enumerate(path) if node in found]
        for at, node in enumerate(path):
            if node not in found:
                near = min(fixed, key=lambda other: abs(other - at), default=None)
                backward = len(fixed) > 1 and found[path[fixed[0]]] > found[path[fixed[-1]]]
                found[node] = at if near is None else found[path[near]] + (near - at if backward else at - near)
    lowest = min(found.values(), default=0)
    return {node: layer - lowest for node, layer in found.items()}


def host_names(links: Iterable[Link], openings: dict[int, Opening]) -> dict[str, str]:
    """Return the names of hosts, by their addresses."""
    names: dict[str, str] = {}
    for link in links:
        for hosts, pair in link.pairs.items():
            opening = openings.get(pair.flow) if pair.flow is not None else None
            if opening and pair.opens is not None and 0 <= pair.entered - opening.time < MAX_DELAY:
                both = (opening.opener, opening.other) if pair.opens else (opening.other, opening.opener)
                names.update(zip(map(address, hosts), both, strict=True))
    return names


def address(host: bytes) -> str:
    """Write an address of IPv4."""
    return ".".join(map(str, host))


def kind(host: Place, names: dict[str, str]) -> str:
    """Return the name of a host without its number."""
    return names.get(host[1], "").rpartition(".")[0]


def label(hosts: set[str], names: dict[str, str]) -> str:
    """Name a node: nothing for a router, and how many hosts if they are several."""
    if len(hosts) < 2:
        return "".join(names.get(host, host) for host in hosts)
    kinds = sorted({kind((HOST, host), names) for host in hosts} - {""})
    return f"{', '.join(kinds)} ({len(hosts)})" if kinds else f"{len(hosts)} hosts"


def state(link: Link, time: float) -> dict[str, float]:
    """Return what a link does at a time.

    `rate` is in b/s, `queue` in packets; `drops` and `marks` are those in the interval of the rate, `all_drops` all so
    far.
    """
    offered, arrived, dropped = (
        int(np.searchsorted(table["time"], time, "right")) for table in (link.offered, link.arrived, link.dropped)
    )
    begin = time - link.over
    first = int(np.searchsorted(link.arrived["time"], begin, "right"))
    rate = 8 * float(link.arrived["bytes"][first:arrived].sum()) / link.over
    # Since the last packet came, others may have left: it knows the most that can wait.
    queue = min(float(link.offered["queued"][offered - 1]), offered - dropped - arrived) if offered else 0.0
    drops = dropped - int(np.searchsorted(link.dropped["time"], begin, "right"))
    marks = np.diff(np.searchsorted(link.marked["time"], [begin, time], "right"))[0]
    return {"rate": rate, "queue": queue, "drops": drops, "all_drops": dropped, "marks": int(marks)}
