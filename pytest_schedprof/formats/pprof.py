"""Writer of pprof's profiles, which are protocol buffers.

It writes the few messages that are needed. The numbers of their fields are those of
`profile.proto` in github.com/google/pprof.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_schedprof.formats.speedscope import Frame, SpeedscopeFile

NANOSECONDS = 1e9

VARINT, BYTES = 0, 2
"""Encodings of a field: as a number, or as bytes after their length."""


def write_pprof(file: SpeedscopeFile) -> bytes:
    """Write the samples of all threads, each with its thread as a label."""
    return gzip.compress(b"".join(_Writer(file).fields()), mtime=0)


class _Writer:
    def __init__(self, file: SpeedscopeFile) -> None:
        self._file = file
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[int, int], int] = {}

    def fields(self) -> Iterator[bytes]:
        """Yield the fields of a `Profile`; strings come last, when all are known."""
        for number, unit in ((1, ("samples", "count")), (1, ("time", "nanoseconds"))):
            yield _message(number, self._value_type(*unit))
        for thread in self._file.threads:
            label = [_number(1, self._string("thread")), _number(2, self._string(thread.thread))]
            period = round(thread.seconds * NANOSECONDS)
            for index, count in Counter(thread.stacks).items():
                yield _message(2, self._sample(index, (count, count * period), label))
        for number, frame in enumerate(self._file.frames, start=1):
            yield _message(4, self._location(number, frame))
        # Without a system name: pprof would demangle `<lambda>` to an empty string.
        for (name, place), number in self._functions.items():
            yield _message(5, [_number(1, number), _number(2, name), _number(4, place)])
        yield _message(11, self._value_type("time", "nanoseconds"))
        yield _number(12, self._period())
        yield from (_field(6, text.encode("utf-8", "replace")) for text in self._strings)

    def _period(self) -> int:
        """Return the time between samples in nanoseconds."""
        return max((round(each.seconds * NANOSECONDS) for each in self._file.threads), default=0)

    def _value_type(self, kind: str, unit: str) -> list[bytes]:
        return [_number(1, self._string(kind)), _number(2, self._string(unit))]

    def _sample(self, index: int, values: Iterable[int], label: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a sample, its innermost frame first; locations are numbered from one."""
        yield _packed(1, (frame + 1 for frame in reversed(self._file.stacks[index])))
        yield _packed(2, values)
        yield _message(3, label)

    def _location(self, number: int, frame: Frame) -> Iterator[bytes]:
        """Yield a line of code; all lines of one function refer to that function."""
        key = (self._string(frame.name), self._string(frame.file or ""))
        function = self._functions.setdefault(key, len(self._functions) + 1)
        yield _number(1, number)
        yield _message(4, [_number(1, function), _number(2, max(frame.line or 0, 0))])

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


def _varint(number: int) -> bytes:
    """Encode seven bits in each byte, lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | VARINT) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | BYTES) + _varint(len(content)) + content


def _message(field: int, fields: Iterable[bytes]) -> bytes:
    return _field(field, b"".join(fields))


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
