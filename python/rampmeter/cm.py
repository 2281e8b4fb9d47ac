"""The Congestion Manager of this host: it decides when flows may send, for all programs together.

A daemon must run (`rampmeter cm daemon`). A program opens flows, requests permission to send, and receives events:

>>> from rampmeter import cm
>>> with cm.connect() as manager:
...     flow = manager.open("192.0.2.7", 5000)
...     flow.request()
...     for event in manager.events(timeout=1):
...         match event:
...             case cm.Send(flow, size):
...                 flow.notify(socket.send(data[:size]))
...                 flow.request()
...             case cm.Update(flow, rate, srtt):
...                 choose_encoding(rate)

Inside that loop, or where acknowledgements arrive, `flow.update` reports delivered and lost bytes. Only these reports
increase the window.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from rampmeter._engine import CmClient, CmError, cm_strerror

__all__ = ["Closed", "CmError", "Event", "Flow", "Manager", "Room", "Send", "Update", "connect"]


class Flow:
    """A flow of packets to one destination, created by `Manager.open`."""

    def __init__(self, client: CmClient, number: int, known: dict[int, "Flow"]) -> None:
        """Wrap flow `number` of `client`. The flow is in `known` until it is closed."""
        self._client = client
        self._number = number
        self._known = known

    @property
    def mtu(self) -> int:
        """Return the maximum number of bytes in a packet."""
        return self._client.mtu(self._number)

    def request(self) -> None:
        """Request permission to send one packet. Each request is answered by a `Send`."""
        self._client.request(self._number)

    def notify(self, sent: int) -> None:
        """Report the bytes of the packet that was sent for the oldest `Send`; 0 if none was sent."""
        self._client.notify(self._number, sent)

    def update(
        self,
        received: int = 0,
        lost: int = 0,
        loss: Literal["persistent", "transient", "ecn"] | None = None,
        rtt: float | None = None,
    ) -> None:
        """Report the bytes delivered and lost since the last call, and the round-trip time.

        A loss is "persistent" if nothing comes back, "transient" if later packets arrived, "ecn" if packets were
        marked. `rtt` is in seconds.
        """
        self._client.update(self._number, received, lost, loss, rtt)

    def query(self) -> tuple[float, float]:
        """Return the flow's share of its path in bits per second, and the smoothed round-trip time in seconds."""
        return self._client.query(self._number)

    def thresholds(self, down: float, up: float) -> None:
        """Request an `Update` when the rate falls or rises to these multiples of the last reported rate."""
        self._client.thresholds(self._number, down, up)

    def weigh(self, weight: float) -> None:
        """Set the flow's weight relative to other flows on its path."""
        self._client.weigh(self._number, weight)

    def set_macroflow(self, macroflow: "Flow | Literal['new', 'default']") -> None:
        """Put the flow into the macroflow of another flow, into a new one, or back into its destination's.

        For flows that the network treats differently from others to the same destination. Bytes in flight remain with
        the macroflow that sent them. Separate macroflows compete as separate TCP flows do.
        """
        with_flow = macroflow._number if isinstance(macroflow, Flow) else macroflow
        self._client.set_macroflow(self._number, with_flow)

    def send(self, data: bytes) -> None:
        """Give a datagram to the daemon, which sends it when the flow may send."""
        self._client.send(self._number, data)

    def header(self, length: int) -> tuple[bytes, tuple[str, int]]:
        """Return the header of a packet with `length` bytes of data, and the address for both.

        For programs that send from sockets of their own to receivers that report nothing: the receiver's daemon counts
        what arrives, removes the header and delivers the data. Call `notify` with the number of bytes of data, or 0,
        before the next `header`. While the receiver is not known to have a daemon, the header is empty and the address
        is the flow's destination.
        """
        return self._client.header(self._number, length)

    def close(self) -> None:
        """Close the flow."""
        self._client.close(self._number)
        self._known.pop(self._number, None)

    def __repr__(self) -> str:
        """Show the flow's number of the C API."""
        return f"Flow({self._number})"


@dataclass(frozen=True)
class Send:
    """The flow may send one packet of up to `size` bytes now. Answer with `flow.notify`."""

    flow: Flow
    size: int


@dataclass(frozen=True)
class Update:
    """The flow's share of its path is now `rate` bits per second, the round trip `srtt` seconds."""

    flow: Flow
    rate: float
    srtt: float


@dataclass(frozen=True)
class Room:
    """`flow.send`, which was refused, is possible again."""

    flow: Flow


@dataclass(frozen=True)
class Closed:
    """The daemon closed the flow, for `reason`."""

    flow: Flow
    reason: str


Event = Send | Update | Room | Closed


class Manager:
    """A connection to the daemon, created by `connect`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Connect to the daemon at `path`, or at the default path."""
        self._client: CmClient | None = CmClient(path)
        self._flows: dict[int, Flow] = {}

    def open(self, host: str, port: int = 0, *, weight: float = 1.0) -> Flow:
        """Open a flow to `host`. Only `Flow.send` and `Flow.header` use the port."""
        client = self._connected()
        number = client.open(host, port, weight)
        flow = Flow(client, number, self._flows)
        self._flows[number] = flow
        return flow

    def listen(self, port: int) -> None:
        """Receive datagrams with a Congestion Manager's header at this UDP port of this host.

        The daemon removes the header and forwards the datagram to that port, until this program ends.
        """
        self._connected().listen(port, True)

    def unlisten(self, port: int) -> None:
        """Stop receiving."""
        self._connected().listen(port, False)

    def hint(self, host: str, weights: dict[int, int]) -> None:
        """Request shares in proportion to these weights for flows from `host`, by their destination ports."""
        self._connected().hint(host, list(weights.items()))

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event of any flow, for up to `timeout` seconds."""
        found = self._connected().next(timeout)
        if found is None:
            return None
        kind, number, first, second = found
        flow = self._flows.get(number) or Flow(self._connected(), number, self._flows)
        if kind == "send":
            return Send(flow, int(first))
        if kind == "update":
            return Update(flow, first, second)
        if kind == "room":
            return Room(flow)
        self._flows.pop(number, None)
        return Closed(flow, cm_strerror(int(first)) or "")

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield events until there is none for `timeout` seconds."""
        while (event := self.next(timeout)) is not None:
            yield event

    def fileno(self) -> int:
        """Return a file descriptor for `select`: it is readable when `next(0)` should be called."""
        return self._connected().fileno()

    def close(self) -> None:
        """Close all flows and the connection."""
        for flow in list(self._flows.values()):
            # Flows that are already closed, or whose daemon has ended, raise an error, which is ignored.
            with contextlib.suppress(CmError):
                flow.close()
        self._client = None
        self._flows.clear()

    def _connected(self) -> CmClient:
        if self._client is None:
            raise ValueError("this connection is closed; call connect() again")
        return self._client

    def __enter__(self) -> "Manager":
        """Use it in a `with` statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all flows and the connection."""
        self.close()


def connect(path: str | os.PathLike[str] | None = None) -> Manager:
    """Connect to this host's daemon, or to the one at `path`."""
    return Manager(path)
