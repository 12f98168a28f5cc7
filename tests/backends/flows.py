"""Code with every kind of control flow, for tests of counting bytecodes. It is ugly on purpose."""

# mypy: ignore-errors

from __future__ import annotations

import asyncio


def gen(n):
    for i in range(n):
        yield i


class A:
    def __init__(self, x):
        self.x = x

    def __await__(self):
        yield None
        yield None
        return self.x


async def leaf(x):
    if x % 3 == 0:
        raise ValueError
    return await A(x)


async def co(n):
    t = 0
    for i in range(n):
        try:
            t += await leaf(i)
        except ValueError:
            t -= 1
        finally:
            t += 0
    return t


async def agen(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def consume():
    async for x in agen(5):
        async with Ctx():
            if x == 3:
                break
    return [y async for y in agen(3)]


class Ctx:
    async def __aenter__(self):
        await asyncio.sleep(0)

    async def __aexit__(self, *a):
        return False


async def cancelled():
    t = asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    t.cancel()
    try:
        await t
    except asyncio.CancelledError:
        pass


async def forever():
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise


def yf(n):
    r = yield from gen(n)
    return r


def loops(n):
    s = 0
    for i in range(n):
        if i % 2:
            continue
        elif i % 5 == 0 and i or n < 0:
            s += 1
        else:
            while s < i:
                s += 3
        try:
            {}[i]
        except KeyError as e:
            s += 1
        else:
            s -= 1
    return (
        s,
        [j for j in range(i) if j % 3],
        {k: v for k, v in zip("abc", range(3))},
        any(q > 2 for q in range(9)),
    )


def custom_iter():
    class It:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 4:
                raise StopIteration
            return self.n

    t = 0
    for x in It():
        t += x
    for x in iter([1, 2, 3].pop, 1):
        t += x
    for k in {"a": 1, "b": 2}:
        t += 1
    for x in map(int, "123"):
        t += x
    return t


def match(x):
    match x:
        case {"a": 1}:
            return 1
        case [a, b]:
            return a
        case _:
            return None


def raises(n):
    if n == 0:
        raise KeyError
    try:
        raises(n - 1)
    finally:
        n += 1


def nested():
    try:
        raises(3)
    except KeyError:
        try:
            raise ValueError from None
        except ValueError:
            pass
    with open("/dev/null") as f:
        f.read()
    try:
        with open("/dev/null") as f:
            raise OSError
    except OSError:
        pass
    x = None
    a = x.y if x is not None else 0
    assert not x
    return a


def throwing():
    g = catcher()
    next(g)
    g.throw(KeyError)
    try:
        g.throw(TypeError)
    except TypeError:
        pass
    g = gen(4)
    next(g)
    g.close()
    g = yf(4)
    next(g)
    try:
        g.throw(TypeError)
    except TypeError:
        pass
    del g


def catcher():
    while True:
        try:
            yield 1
        except KeyError:
            pass


BIG = """
def big(n):
    total = 0
    for i in range(n):
        if i:
"""
LINE = "            total += (i * 3 + total) % 7\n"
exec(BIG + 70 * LINE + "    return total")  # jumps so far that their arguments need two bytes


class Nothing:
    def __getitem__(self, key):
        raise KeyError(key)


def missing(n):
    nothing = Nothing()
    for i in range(n):  # the interpreter calls what it has called often without a frame of C
        try:
            nothing[i]
        except KeyError:
            pass


def main():
    loops(40)
    missing(40)
    custom_iter()
    match({"a": 1})
    match([1, 2])
    match(3)
    nested()
    list(yf(4))
    throwing()
    big(5)

    async def go():
        await co(10)
        await consume()
        await cancelled()

    asyncio.run(go())


def gen_sum(n):
    total = 0
    for number in gen(n):
        total += number
    return total
