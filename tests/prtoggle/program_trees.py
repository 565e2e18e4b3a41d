"""Generated modules with one function to edit, and what a hand would make of them.

A program is a tree, not a text. The text with edits is written from the tree by `Program.text`, which knows
nothing of prtoggle: it is the module that somebody would have edited by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

# A line and its depth in levels of indentation; None for one that begins inside a string and never moves.
Line = tuple[int | None, str]

# Statements by their text: `{n}` is a number that no other one has, "|" begins a line inside a string.
PLAIN = [
    "acc.append({n} + x)",
    "x = x * {n} - 1",
    "acc.append('# no comment {n}')  # a comment: {n}",
    "acc.append(f\"{{x!r:>4}} {{'a' + 'b'}} {n}\")",
    'acc.append("""first {n}\n|col0\n|    deep\n|""")',
    "acc.append('''\n|    y = {n}\n|''')",
    "acc.append(\n    (x,\n     {n})\n)",
    "y{n} = x\nacc.append(y{n} + {n})",
    "acc += [i + {n} for i in range(3) if i != x]",
    "acc.append((lambda q, w={n}: q + w + x)(1))",
    "acc.append((w{n} := x + {n}) and w{n})",
    "acc.append({{i: (j, {n}) for i in range(2) for j in range(i)}})",
    "if x == 2: raise ValueError({n}, x)",
    "assert x != 3, 'said {n}'",
    "acc.append(LIMIT + {n})",
    "acc.append(helper(x, {n}))",
    "x += \\\n    {n}",
    "# a comment of its own {n}\nacc.append({n})",
    "acc.append('ä€𝄞 {n}'); x += 1",
    "del acc[{n}:]",
    "x, *rest{n} = [x, {n}, 1]\nacc.append(rest{n})",
    "acc.append(1 // (x - 1) + {n})",
    "return [{n}, acc]",
    "global G{n}\nG{n} = x\nacc.append(G{n} + {n})",
]
PARAMETERS = ["acc.append(d); acc.append(k * {n})"]
IN_METHOD = [
    "acc.append(self.__secret + {n})",
    "acc.append(super().base({n}))",
    "acc.append((__class__.__name__, {n}))",
    "self.seen = {n}\nacc.append(self.seen)",
]
IN_FACTORY = [
    "acc.append(free + {n})",
    "acc.append([free + i for i in range({n} % 3)])",
    "acc.append((other, {n}))",
]
HEADERS = [
    "if x > {n} % 3:|else:",
    "for i{n} in range(x % 3 + 1):",
    "for i{n} in range(2):|else:",
    "try:|except (ValueError, ZeroDivisionError) as error{n}:",
    "try:|finally:",
    "with context({n}) as c{n}:",
    "match x % 2, {n}:|case (0, {n}):|case _:",
    "def inner{n}(y, z={n}, *, acc=acc, x=x):",
    "if x < {n}:|elif x == 1:|else:",
]


@dataclass(eq=False)
class Statement:
    """A run of lines without a block; its number stands in its text, so the text occurs once."""

    number: int
    text: str

    def lines(self, depth: int) -> list[Line]:
        return [(None, line[1:]) if line.startswith("|") else (depth, line) for line in self.text.split("\n")]


@dataclass(eq=False)
class Block:
    """A compound statement: clauses of a header and a body; `after` calls what a nested def defines."""

    number: int
    clauses: list[tuple[str, list[Statement | Block]]]
    after: str = ""


Node = Statement | Block


@dataclass(eq=False)
class Change:
    """What happens to one node: `mode` is replacement, prepend or append."""

    node: Node
    mode: str
    text: str

    def lines(self, depth: int) -> list[Line]:
        return Statement(0, self.text).lines(depth) if self.text else []


class Context(NamedTuple):
    """Where the function stands: the lines around it (tabs for depth), and how it is named and called."""

    before: tuple[str, ...]
    depth: int
    first: str
    qualname: str
    target: str
    call: str
    own: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


_METHOD = (
    "class Base:",
    "\tdef base(self, v=0):",
    "\t\treturn ('base', v)",
    "class Host(Base):",
    "\t__secret = 5",
)
CONTEXTS = {
    "function": Context((), 0, "", "target", "target", "target"),
    "branch": Context(
        ("if LIMIT:",), 1, "", "target", "target", "target", (),
        ("else:", "\tdef target(x, d=3, *, k=4):", "\t\treturn 'other branch'"),
    ),
    "method": Context(_METHOD, 1, "self, ", "Host.target", "Host.target", "Host().target", tuple(IN_METHOD)),
    "nested class": Context(
        ("class Outer:", "\tclass _Host:", "\t\t__secret = 7", "\t\tdef base(self): return 1"), 2, "self, ",
        "Outer._Host.target", "Outer._Host.target", "Outer._Host().target", (IN_METHOD[0], IN_METHOD[2], IN_METHOD[3]),
    ),
    "static method": Context(
        (*_METHOD, "\t@staticmethod"), 1, "", "Host.target", "Host.target", "Host.target", (IN_METHOD[2],)
    ),
    "class method": Context(
        (*_METHOD, "\t@classmethod"), 1, "cls, ", "Host.target", "Host.target", "Host.target",
        ("acc.append(cls.__secret + {n})", IN_METHOD[2], "acc.append((cls.__name__, {n}))"),
    ),
    "factory": Context(
        ("def factory(free, other=2):",), 1, "", "factory.<locals>.target", "target", "target", tuple(IN_FACTORY),
        ("\treturn target", "target = factory(5)"),
    ),
    "inner function": Context(
        ("def factory(free, other=2):",), 1, "", "factory.<locals>.target", "factory.<locals>.target",
        "factory(6)", tuple(IN_FACTORY), ("\treturn target",),
    ),
}  # fmt: skip
PRELUDE = """\
import contextlib
import functools
LIMIT = 100
@contextlib.contextmanager
def context(v):
\tyield v
def helper(a, b):
\treturn a, b
def wrapping(fn):
\t@functools.wraps(fn)
\tdef inner(*a, **k):
\t\treturn ["wrapped", fn(*a, **k)]
\treturn inner
def bare(times):
\tdef deco(fn):
\t\tdef inner(*a, **k):
\t\t\treturn [times, fn(*a, **k)]
\t\treturn inner
\treturn deco
class Done:
\tdef __init__(self, v): self.v = v
\tdef __await__(self):
\t\treturn self.v
\t\tyield
class Entered(Done):
\tasync def __aenter__(self): return await self
\tasync def __aexit__(self, *error): return None
class Holding:
\tdef __init__(self, fn): self._fn = fn
\tdef __call__(self, *a, **k): return ("held", self._fn(*a, **k))
\tdef __get__(self, instance, owner): return self if instance is None else functools.partial(self, instance)
"""
DECORATORS = ["@wrapping", "@bare(3)", "@functools.lru_cache(maxsize=None)", "@Holding", "@functools.cache"]
HEADER = "(x, d=3, *, k=4):"
NEW_HEADERS = [
    "(x, d=9, *, k=4):",
    "(x, d=3, *, k=[1]):",
    "(x, e=1, d=3, *, k=4):",
    "(x, d=3, k=4):",
    "(x: int, d=3, *, k=4):",
]


@dataclass(eq=False)
class Program:
    """A module with one function `target`; `unit` is one level of indentation."""

    context: Context
    unit: str
    kind: str
    decorators: list[str]
    docstring: list[str]
    body: list[Node]
    # Statements of the target that stand in another function too.
    neighbour: list[Node]

    def nodes(self) -> list[Node]:
        """Everything in the function that an edit can be about."""
        return [inner for node in self.body for inner in with_inner(node)]

    def header(self) -> str:
        """The text of the def line."""
        return f"{'async ' if 'async' in self.kind else ''}def target({self.context.first}{HEADER[1:]}"

    def text(self, changes: list[Change] | None = None, header: str | None = None, preamble: str = "") -> str:
        """The module, with changes made by hand."""
        by_node = {id(change.node): change for change in changes or ()}
        depth = self.context.depth
        lines: list[Line] = [_line(text) for text in PRELUDE.splitlines()]
        lines += [(0, "def before(x, d=3, k=4, acc=()):"), (1, "acc = list(acc)")]
        lines += [*self._body(self.neighbour, 1, {}), (1, "return acc")]
        lines += [_line(text) for text in self.context.before]
        lines += [(depth, text) for text in self.decorators]
        lines += [(depth, self.header().replace(HEADER[1:], (header or HEADER)[1:]))]
        lines += Statement(0, "\n".join(self.docstring)).lines(depth + 1) if self.docstring else []
        lines += [(depth + 1, preamble)] if preamble else []
        lines += [(depth + 1, "acc = ['begin']")]
        lines += [line for node in self.body for line in self._lines(node, depth + 1, by_node)]
        lines += [(depth + 1, "yield acc" if "generator" in self.kind else "return acc")]
        lines += [_line(text) for text in self.context.after]
        lines += [(0, "def after():"), (1, "return LIMIT")]
        return "".join(f"{'' if at is None else self.unit * at}{text}\n" for at, text in lines)

    def _body(self, nodes: list[Node], depth: int, changes: dict[int, Change]) -> list[Line]:
        lines = [line for node in nodes for line in self._lines(node, depth, changes)]
        return lines or [(depth, "pass")]

    def _lines(self, node: Node, depth: int, changes: dict[int, Change]) -> list[Line]:
        change = changes.get(id(node))
        if change is not None and change.mode == "replacement":
            return change.lines(depth)
        own: list[Line] = []
        if isinstance(node, Statement):
            own = node.lines(depth)
        else:
            for header, body in node.clauses:
                inside = depth + header.startswith("case ")
                own.append((inside, header))
                own += self._body(body, inside + 1, changes) if not header.startswith("match ") else []
            own += [(depth, node.after)] if node.after else []
        if change is None:
            return own
        new = change.lines(depth)
        return [*new, *own] if change.mode == "prepend" else [*own, *new]

    def shown(self, node: Node, depth: int) -> str:
        """The node's text, as it stands at that depth."""
        lines = self._lines(node, depth, {})
        return "\n".join(f"{'' if at is None else self.unit * at}{text}" for at, text in lines)


def _line(text: str) -> Line:
    stripped = text.lstrip("\t")
    return len(text) - len(stripped), stripped


def with_inner(node: Node) -> list[Node]:
    """The node and everything below it."""
    found = [node]
    for one in found:
        if isinstance(one, Block):
            found += [inner for _, body in one.clauses for inner in body]
    return found


class Numbers:
    """Gives out numbers of two digits and more, each once."""

    def __init__(self) -> None:
        self._last = 10

    def next(self) -> int:
        self._last += 1
        return self._last


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, Numbers]:
    """A program, and where its numbers go on."""
    numbers = Numbers()
    context = CONTEXTS[draw(st.sampled_from(sorted(CONTEXTS)))]
    kind = draw(st.sampled_from(["plain", "plain", "plain", "generator", "async", "async generator"]))
    body = draw(_nodes(numbers, _texts(context, kind), 2))
    docstring: list[str] = draw(
        st.sampled_from([[], ["'''One line.'''"], ['"""Doc.', "|", "|    acc = 1", '|"""']])
    )
    first = body[0]
    if isinstance(first, Statement) and not set("|'\\") & set(first.text) and draw(st.booleans()):
        # A docstring with the text of the code in it.
        docstring = ["'''Like this:", *(f"|    {line}" for line in first.text.split("\n")), "|'''"]
    neighbour = [node for node in body if isinstance(node, Statement) and _is_plain(node.text)]
    decorators = draw(st.lists(st.sampled_from(DECORATORS), max_size=2))
    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    return Program(context, unit, kind, decorators, docstring, body, neighbour), numbers


def _is_plain(text: str) -> bool:
    words = ("self", "cls", "super", "__", "free", "other", "yield", "await", "async", "global")
    return not any(word in text for word in words)


def _texts(context: Context, kind: str) -> list[str]:
    texts = [*PLAIN, *PARAMETERS, *context.own, *context.own]
    if kind == "async generator":
        texts = [text for text in texts if not text.startswith("return")] + ["yield {n}"]
    if kind == "generator":
        texts += ["yield {n}", "yield from (x, {n})", "acc.append((yield {n}))"]
    if "async" in kind:
        texts += ["acc.append(await Done({n}))", "async with Entered({n}) as a{n}:\n    acc.append(a{n})"]
    return texts


@st.composite
def _nodes(draw: st.DrawFn, numbers: Numbers, texts: list[str], depth: int) -> list[Node]:
    made: list[Node] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.integers(0, 2)) == 0:
            made.append(draw(_block(numbers, texts, depth - 1)))
        else:
            number = numbers.next()
            made.append(Statement(number, draw(st.sampled_from(texts)).format(n=number)))
    return made


@st.composite
def _block(draw: st.DrawFn, numbers: Numbers, texts: list[str], depth: int) -> Block:
    number = numbers.next()
    headers = draw(st.sampled_from(HEADERS)).format(n=number).split("|")
    is_function = headers[0].startswith("def ")
    inner = PLAIN if is_function else texts
    clauses: list[tuple[str, list[Node]]] = [
        (header, [] if header.startswith("match ") else draw(_nodes(numbers, inner, depth)))
        for header in headers
    ]
    return Block(number, clauses, f"acc.append(inner{number}(x))" if is_function else "")


@st.composite
def changes_of(draw: st.DrawFn, program: Program, numbers: Numbers, taken: list[Change]) -> Change | None:
    """A change of one node that touches none of the nodes in `taken`; None when there is no room."""
    used = {id(inner) for change in taken for inner in with_inner(change.node)}
    free = [node for node in program.nodes() if not used & {id(inner) for inner in with_inner(node)}]
    if not free:
        return None
    node = draw(st.sampled_from(free))
    texts = _texts(program.context, program.kind) + (["yield {n}"] if program.kind == "plain" else [])
    for outer in program.nodes():
        if isinstance(outer, Block) and outer.after and node is not outer and node in with_inner(outer):
            texts = PLAIN
    new = [draw(st.sampled_from(texts)).format(n=numbers.next()) for _ in range(draw(st.integers(1, 2)))]
    mode = draw(st.sampled_from(["replacement", "replacement", "prepend", "append"]))
    is_deletion = mode == "replacement" and draw(st.integers(0, 2)) == 0
    return Change(node, mode, "" if is_deletion else "\n".join(new))
