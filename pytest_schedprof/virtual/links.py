"""The link of each worker to the network: what goes the same way shares its bandwidth."""

from __future__ import annotations


class Link:
    """When a worker's link is free again, for what it sends and for what it receives."""

    __slots__ = ("receives_until", "sends_until")

    def __init__(self) -> None:
        self.sends_until = self.receives_until = float("-inf")


def send(sender: Link, receiver: Link, now: float, seconds: float) -> float:
    """Return when a transfer arrives that would take so many seconds on two free links.

    Each link handles its transfers one after another. A transfer waits for both ends at the same
    time, so it does not block one of them while it waits for the other.
    """
    sender.sends_until = max(now, sender.sends_until) + seconds
    receiver.receives_until = max(now, receiver.receives_until) + seconds
    return max(sender.sends_until, receiver.receives_until)
