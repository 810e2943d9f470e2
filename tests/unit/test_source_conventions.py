"""Conventions of the source: references resolve, a name has one meaning, a class is in one piece.

The rules read the source with `ast` and import nothing. Each is a function of parsed modules, so
that a test can also show it a small example that it has to find.

    references    a name in single backticks in a docstring is one that the code has; a dotted name
                  of this package resolves; a file that a docstring or a page names exists
    chapters      a package's docstring names its modules, and says where its tests are
    names         a public class is defined once in its package, and a name that was replaced
                  does not come back
    halves        no class exists only to be the base of one other class
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PAGES = ["*.md", "docs/*.md", "docs/spark/*.md", "docs/reference/*.md", "bench/*.md"]

OTHER_TREES = ("tests", "bench", "examples", "scripts", "build_backend")

Modules = Mapping[str, ast.Module]
"""Parsed modules by dotted name; a package is its `__init__`."""

OTHER_PROJECTS = {
    # Java, Kafka and Spark.
    *("HashMap", "HashSet", "hashCode", "compareTo", "Duration", "DumpLogSegments"),
    *("JacksonParser", "ReaderBasedJsonParser", "PythonStreamingSourceRunner", "fromDDL"),
    *("stringToTimestamp", "stringToDate", "parseTimestampString", "spark", "sql"),
    *("columnNameOfCorruptRecord", "ApiKeys", "String"),
    # Python, its libraries, and the operating system.
    *("fsdecode", "concurrent", "futures", "wait", "as_completed", "pkg_resources", "SelectorKey"),
    *("venv", "grep", "jq", "malloc", "h", "CLOCK_MONOTONIC", "utf8"),
    # SQL and Python keywords, and durations as ISO 8601 has them.
    *("IN", "NOT", "break", "for", "from", "P2D", "PT15M", "P1DT2H30M", "PT1H30M"),
    # What `odradek --version` says of the leaves.
    "interpreted",
    # Spellings that settings are also known by.
    *("LINGER", "MS"),
}
"""Parts of names in backticks that are not of this project."""

SAME_NAME_BY_DESIGN = {
    # One module per API; their classes have the names of Kafka's message definitions.
    "odradek.protocol.api": "each module",
    # The same clients, for asyncio and for threads.
    "odradek.client.aio": "the package",
    "odradek.client.blocking": "the package",
}
"""Where a class may have the name of another one in the same top-level package."""

REPLACED = {
    "Answerable": "RequestExchange",
    "AppendResult": "AppendInfo",
    "Asked": "the kind of request: RequestedPartitions, ReceivedRequest",
    "Attempt": "ConnectAttempt",
    "Awaited": "AwaitedMethod",
    "Background": "TrackedOffload",
    "Balance": "BalanceStep",
    "Blocking": "BlockingMethod",
    "Cleaning": "CleaningPass",
    "Closing": "CloseProcedure",
    "Completion": "BatchCompletion",
    "ConfluentHabits": "ConfluentProducerApi",
    "ConsumerEngine": "ConsumerCore",
    "Cut": "LogCleaningAborted",
    "Described": "DescribedConfig",
    "Driver": "PollDriver",
    "Ending": "TopicDeletion",
    "Face": "WaitStrategy",
    "FetchAnswers": "FetchResponseHandler",
    "FlushedLog": "Log",
    "Found": "what was found: CommittedOffsets, TimestampedBatch",
    "Gathering": "PollBuffer, CombinedReply",
    "Granted": "GrantedProducerId",
    "GroupBooks": "GroupJournal",
    "HeldDecisions": "DeferredErrors",
    "InProgress": "ExchangesInProgress",
    "InTurn": "SerialOffload",
    "InitialWait": "InitialRebalanceDelay",
    "Intake": "SendPath",
    "Joining": "GroupJoin",
    "Known": "RecordedState",
    "LastFlush": "ShutdownFlush",
    "LateFlushes": "DirtyLogFlusher",
    "Later": "CallbackResponse, DelayedAnswer",
    "LeftToReference": "UseReference",
    "Listening": "ServerSocket",
    "Loaded": "LoadedSnapshot",
    "Loading": "CoordinatorLoader",
    "LogStarts": "LogStartSyncer",
    "Look": "UndecidedFetch",
    "Machine": "RealEnvironment, SimMachine",
    "ManySend": "BulkSend",
    "Missing": "MissingTopics",
    "Narrowing": "ReadFilters",
    "Needed": "NeededBrokerCheck",
    "NodeLatency": "NodeLatencyStats",
    "Occasion": "RebalanceEvent",
    "Office": "DeadLetterProducer",
    "OffsetQuestion": "CommittedOffsetsRequest",
    "Opening": "LogLoader",
    "Pace": "ReplaySpeed, DelayRanges, TransactionLimit",
    "Place": "PositionGeneration, SeekTarget",
    "PollWanted": "RequestPoll",
    "Presence": "PollTracker",
    "Reading": "PollLoop",
    "RebalanceTurns": "ListenerCalls",
    "RecordAppender": "RecordAccumulator",
    "RecordSource": "RecordInput, BatchInfo",
    "Requested": "RequestedMarker",
    "Run": "BatchRun, ColumnRun",
    "Seen": "ReceivedRecords",
    "Segments": "LogSegments",
    "SenderTurn": "SenderYield",
    "Signal": "WakeSignal",
    "Slices": "TimeSlicedQueue",
    "Span": "ByteRange",
    "Special": "AnswerMarker",
    "Split": "RequestElements",
    "Spoken": "LastViolationLine",
    "Standing": "BatchState",
    "Stopping": "CleanShutdown",
    "Surprise": "UnexpectedAnswer",
    "TooLarge": "SectionTooLarge",
    "TrimmedLog": "Log",
    "Turn": "OperationResult, CallSequence",
    "Verification": "LogVerifier",
    "Verified": "VerificationResult",
    "WaiterFace": "CoroutineWait",
    "Waiting": "DelayedResponse, BlockedThread",
    "Walk": "RecordsSummary",
    "Wanted": "PartitionFetch, GroupFilter, PendingConnect",
    "Watch": "WatchedDescriptor",
    "Wire": "FieldOptions",
}
"""Names of classes and functions that were given up: words that say nothing alone, or that had
several meanings. What took their place."""

VAGUE_FUNCTIONS = {
    *("said", "told", "whole", "gone", "tells", "bury", "brought", "looked"),
    *("settle", "settles", "settled", "unsettled"),
}
"""Names that say nothing about what a function does."""

BASES_OF_ONE = {
    # Explains methods of another library; no part of the producer itself.
    "odradek.client.blocking.confluent_api.ConfluentProducerApi",
    # The methods about transactions, a chapter of their own beside a producer's `send` and `flush`.
    "odradek.client.aio.transactions.TransactionalProducer",
    "odradek.client.blocking.transactions.TransactionalProducer",
}
"""Classes that only one other extends, and why they are apart from it."""

GROUPS = {
    "odradek.config": "Settings",
    "odradek.client.admin": "Calls",
}
"""Packages that put a class together from chapters: every chapter's name ends like this. They are
the chapters of the reference pages: settings of a broker or client, methods of the admin client."""


# -- the source ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def forget_the_source() -> Iterator[None]:
    """Free the parsed modules at the end: millions of objects, which each later garbage collection
    would look at.
    """
    yield
    source.cache_clear()
    other_modules.cache_clear()


@cache
def source() -> Modules:
    modules = {}
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text())
    return modules


@cache
def other_modules() -> Modules:
    """The modules of tests, benchmarks and scripts, by path, of which a rule of names or docstrings
    could find a line. Parsing all of them would take longer than the rules."""
    paths = [path for tree in OTHER_TREES for path in sorted((ROOT / tree).rglob("*.py"))]
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(text)
        for path in paths
        if may_be_wrong(text := path.read_text())
    }


def may_be_wrong(text: str) -> bool:
    """True if a text has the definition of a name that was given up, or an indirect docstring, if
    only in a string."""
    names = "|".join((*REPLACED, *VAGUE_FUNCTIONS))
    found = rf"""\b(class|def)\s+_*({names})_*\b|["']\s*({"|".join(INDIRECT)})"""
    return re.search(found, text) is not None


@cache
def users() -> str:
    """The text of what uses the source from outside of it, without this module's exceptions."""
    trees = ("tests", "bench", "examples")
    paths = [path for tree in trees for path in (ROOT / tree).rglob("*.py")]
    return "\n".join(path.read_text() for path in paths if path != Path(__file__))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The module and every statement in it, without the expressions, which are the most of it."""
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop(0)
        yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                open_nodes += inner


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The docstrings of the module, its classes and functions, and those below an attribute."""
    for node in statements(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def none_of(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in tree.body if isinstance(node, ast.ClassDef))


# -- references ------------------------------------------------------------------------------------

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
IN_BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
EXAMPLE_FILES = {"job.py"}
"""Files of a user, in the pages."""
PYTHON_FILE = re.compile(r"(?<![\w/.*<])(?:\w+/)*\w+\.py\b")
DOTTED = re.compile(r"\bodradek(?:\.\w+)+")


@cache
def source_names() -> frozenset[str]:
    return names_of(source())


def names_of(modules: Modules) -> frozenset[str]:
    """Every name in the code: of modules, definitions, attributes, arguments and settings."""
    found = set(dir(builtins))
    for module, tree in modules.items():
        found.update(module.split("."))
        ignored = {id(node) for node in docstrings(tree)}
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found.add(node.name)
                case ast.keyword(arg=str(name)):
                    found.add(name)
                case ast.alias():
                    found.update(node.name.split("."))
                    found.add(node.asname or node.name)
                case ast.Constant(value=str(text)) if " " not in text and id(node) not in ignored:
                    found.add(text)
                    found.update(re.findall(r"\w+", text))
    return frozenset(found)


def unknown_names(modules: Modules, known: frozenset[str]) -> list[str]:
    """Names in backticks in docstrings of which no part of the code has heard."""
    found = []
    for module, tree in modules.items():
        for node in docstrings(tree):
            for text in IN_BACKTICKS.findall(str(node.value)):
                name = text.removesuffix("()")
                if text.endswith((".py", ".md")) or name in known or not NAME.fullmatch(name):
                    continue
                if not all(part in known for part in name.split(".")):
                    found.append(f"{module}:{node.lineno}: `{text}`")
    return found


def defined_in(tree: ast.AST) -> set[str]:
    """Names that a module or class defines, and strings: names that are imported late."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias():
                found.add(node.asname or node.name)
            case ast.Constant(value=str(text)):
                found.add(text)
    return found


def resolves(dotted: str, modules: Modules) -> bool:
    """True if the name is a module, or its parts behind the module are defined in it."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        if module in modules:
            rest = set(parts[count:])
            return not rest or rest <= defined_in(modules[module])
    return False


def unresolved_names(
    texts: Mapping[str, str], modules: Modules, known: frozenset[str]
) -> list[str]:
    """`known`: headers of records have dotted names too."""
    return [
        f"{where}: {dotted}"
        for where, text in texts.items()
        for dotted in DOTTED.findall(text)
        if dotted not in known and not resolves(dotted, modules)
    ]


@cache
def texts() -> Mapping[str, str]:
    """Docstrings and pages, by where they are."""
    found = {
        f"{module}:{node.lineno}": str(node.value)
        for module, tree in source().items()
        for node in docstrings(tree)
    }
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            if path.name != "CHANGELOG.md":  # It tells of what was.
                found[str(path.relative_to(ROOT))] = path.read_text()
    return found


def test_a_name_in_backticks_in_a_docstring_is_one_that_the_code_has() -> None:
    none_of(unknown_names(source(), source_names() | OTHER_PROJECTS))


def test_a_dotted_name_of_this_package_resolves() -> None:
    none_of(unresolved_names(texts(), source(), source_names()))


def missing_files(texts: Mapping[str, str], there: Collection[str]) -> list[str]:
    """Python files that are named by a path, or by the last parts of one, and are not there."""
    return [
        f"{where}: {name}"
        for where, text in texts.items()
        for name in PYTHON_FILE.findall(text)
        if name not in EXAMPLE_FILES
        and not any(path == name or path.endswith(f"/{name}") for path in there)
    ]


def test_a_file_that_a_docstring_or_a_page_names_exists() -> None:
    paths = [path for tree in ("src", *OTHER_TREES) for path in (ROOT / tree).rglob("*.py")]
    there = [path.relative_to(ROOT).as_posix() for path in (*paths, *ROOT.glob("*.py"))]
    none_of(missing_files(texts(), there))


def test_the_rules_of_references_find_what_is_wrong() -> None:
    modules = {
        "odradek.here": ast.parse('"""See `there`, `Thing.run()` and `Thing.gone`."""'),
        "odradek.there": ast.parse("class Thing:\n    def run(self): pass"),
    }
    assert unknown_names(modules, names_of(modules)) == ["odradek.here:1: `Thing.gone`"]
    text = {"page": "odradek.there.Thing.run is called by odradek.there.other, not odradek.where"}
    files = {"page": "First log.py, then log/other.py."}
    assert missing_files(files, ["src/log/log.py"]) == ["page: log/other.py"]
    assert unresolved_names(text, modules, frozenset()) == [
        "page: odradek.there.other",
        "page: odradek.where",
    ]


def wrong_test_lines(modules: Modules, packages: Collection[str], tests: Path) -> list[str]:
    """Packages whose docstring does not say at its end where their tests are: `Tests: a, b`, paths
    below the directory of the tests."""
    found = []
    for package in packages:
        before, line, named = (ast.get_docstring(modules[package]) or "").rpartition("Tests:")
        paths = [path.strip() for path in named.replace("\n", " ").rstrip(".").split(",")]
        if not line or (before and not before.endswith("\n")):
            found.append(f"{package}: no line Tests:")
        else:
            found += [
                f"{package}: no tests at {each!r}" for each in paths if not there(tests, each)
            ]
    return found


def there(tests: Path, pattern: str) -> bool:
    return bool(pattern) and any(tests.glob(pattern))


def test_each_package_says_where_its_tests_are() -> None:
    none_of(
        wrong_test_lines(
            source(), [each for each in packages() if each != "odradek"], ROOT / "tests"
        )
    )


def test_the_rule_of_test_lines_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    modules = {
        "odradek.a": ast.parse('"""A.\n\nTests: unit, property/test_a.py\n"""'),
        "odradek.b": ast.parse('"""B. Tests: unit"""'),
    }
    assert wrong_test_lines(modules, modules, tmp_path) == [
        "odradek.a: no tests at 'property/test_a.py'",
        "odradek.b: no line Tests:",
    ]


CHAPTERS_BY_NAME = {"odradek.protocol.api", "odradek.broker.handlers"}
"""Packages with one module per API, which is found by its name."""
LISTED = re.compile(r"`([^`]+)`|^    (.*)$", re.MULTILINE)


def unlisted_modules(modules: Modules, packages: Collection[str]) -> list[str]:
    """Modules that the docstring of their package does not name, in backticks or in a table."""
    found = []
    for package in packages:
        listed = LISTED.findall(ast.get_docstring(modules[package]) or "")
        names = {name for pair in listed for text in pair for name in re.findall(r"\w+", text)}
        for module in modules:
            before, _, name = module.rpartition(".")
            if before == package and module not in packages and name not in {*names, "__main__"}:
                found.append(f"{package} does not name {name}")
    return found


def packages() -> list[str]:
    found = {
        ".".join(path.parent.relative_to(SRC).parts) for path in SRC.glob("odradek/**/__init__.py")
    }
    return sorted(found)


def test_each_package_names_its_modules() -> None:
    none_of(unlisted_modules(source(), sorted({*packages()} - CHAPTERS_BY_NAME)))


def test_the_rule_of_chapters_finds_a_module_that_is_not_named() -> None:
    text = '"""The log, with its reader and `index`.\n\n    segment   files\n\nTests: unit/log\n"""'
    names = ("segment", "index", "reader")
    modules = {
        "odradek.log": ast.parse(text),
        **{f"odradek.log.{name}": ast.parse("") for name in names},
    }
    assert unlisted_modules(modules, ["odradek.log"]) == ["odradek.log does not name reader"]


# -- names -----------------------------------------------------------------------------------------


def defined_twice(modules: Modules) -> list[str]:
    """Public classes of one name in one package, with their modules."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, tree in modules.items():
        package = ".".join(module.split(".")[:2])
        for prefix, unit in SAME_NAME_BY_DESIGN.items():
            if module.startswith(f"{prefix}."):
                package = module if unit == "each module" else prefix
        for node in classes(tree):
            if not node.name.startswith("_"):
                found[package, node.name].append(module)
    return [f"{name}: {', '.join(where)}" for (_, name), where in found.items() if len(where) > 1]


def definitions(modules: Modules) -> Iterator[tuple[str, str, bool]]:
    """Where a class or function is defined, its name, and whether it is a function."""
    for module, tree in modules.items():
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                yield f"{module}:{node.lineno}", node.name, False
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}:{node.lineno}", node.name, True


def replaced_names(modules: Modules) -> list[str]:
    return [
        f"{where}: {name}, now {REPLACED[name]}"
        for where, name, _ in definitions(modules)
        if name in REPLACED
    ]


def vague_functions(modules: Modules) -> list[str]:
    return [
        f"{where}: {name}"
        for where, name, is_function in definitions(modules)
        if is_function and name.strip("_") in VAGUE_FUNCTIONS
    ]


def test_a_public_class_is_defined_once_in_its_package() -> None:
    none_of(defined_twice(source()))


def test_a_name_that_was_replaced_does_not_come_back() -> None:
    none_of(replaced_names({**source(), **other_modules()}))


def test_a_function_has_a_name_that_says_what_it_does() -> None:
    none_of(vague_functions({**source(), **other_modules()}))


def test_the_rules_of_names_find_what_is_wrong() -> None:
    once, again = ast.parse("class Plan: pass"), ast.parse("class Plan: pass\nclass _Own: pass")
    modules = {"odradek.log.a": once, "odradek.log.b.c": again, "odradek.cli.d": once}
    assert defined_twice(modules) == ["Plan: odradek.log.a, odradek.log.b.c"]
    vague = {"odradek.log.a": ast.parse("class A:\n    def _told(self): pass")}
    assert vague_functions(vague) == ["odradek.log.a:2: _told"]
    first = next(iter(REPLACED))
    old = {"odradek.log.a": ast.parse(f"class {first}: pass")}
    assert replaced_names(old) == [f"odradek.log.a:1: {first}, now {REPLACED[first]}"]


def test_a_text_that_a_rule_finds_wrong_is_not_passed_over() -> None:
    texts = [f"class {name}: pass" for name in REPLACED]
    texts += [f"async def _{name}_(): pass" for name in VAGUE_FUNCTIONS]
    texts += [f'def f():\n    """{beginning}it is."""' for beginning in INDIRECT]
    assert [text for text in texts if not may_be_wrong(text)] == []
    assert not may_be_wrong('class Log:\n    """Records. Of a partition."""')


# -- docstrings ------------------------------------------------------------------------------------

INDIRECT = ("Whether ", "Who ", "Whose ", "Whom ", "Those ", "That ", "Of ")
"""How no docstring begins: it says what the thing is, does or returns ("True if ...")."""


def indirect_docstrings(modules: Modules) -> list[str]:
    return [
        f"{module}:{node.lineno}: {str(node.value).splitlines()[0]}"
        for module, tree in modules.items()
        for node in docstrings(tree)
        if str(node.value).startswith(INDIRECT)
    ]


def test_a_docstring_begins_with_what_the_thing_is_or_does() -> None:
    none_of(indirect_docstrings({**source(), **other_modules()}))


def test_the_rule_of_docstrings_finds_an_indirect_one() -> None:
    modules = {"odradek.a": ast.parse('def f():\n    """Whether it is so."""')}
    assert indirect_docstrings(modules) == ["odradek.a:2: Whether it is so."]


# -- halves ----------------------------------------------------------------------------------------


class UseCounter(ast.NodeVisitor):
    """Counts for each class who extends it, and how often it is used for anything else. Classes
    have their dotted names, so that two of one name are not taken for each other."""

    def __init__(self) -> None:
        self.extended_by: dict[str, list[str]] = defaultdict(list)
        self.uses: dict[str, int] = defaultdict(int)
        self._module = ""
        self._names: dict[str, str] = {}

    def visit_module(self, module: str, tree: ast.Module) -> None:
        self._module = module
        self._names = {node.name: f"{module}.{node.name}" for node in classes(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.split(".")[0]
                    self._names[alias.asname or first] = alias.name if alias.asname else first
        self.visit(tree)

    def resolved(self, node: ast.AST) -> str:
        """Return the dotted name of a name or attribute; "" for another expression."""
        if isinstance(node, ast.Attribute):
            before = self.resolved(node.value)
            return f"{before}.{node.attr}" if before else ""
        return self._names.get(node.id, "") if isinstance(node, ast.Name) else ""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            self.extended_by[self.resolved(plain)].append(node.name)
            if isinstance(base, ast.Subscript):
                self.visit(base.slice)
        for each in (*node.decorator_list, *node.keywords, *node.body):
            self.visit(each)

    def visit_Name(self, node: ast.Name) -> None:
        self.uses[self.resolved(node)] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.uses[self.resolved(node)] += 1
        self.generic_visit(node)


def halves(modules: Modules, others: Callable[[], str]) -> list[str]:
    """Classes that exist only to be the base of one other class: never made, named in a type, or
    extended by anything else; nor named in the text of `others`."""
    counter = UseCounter()
    for module, tree in modules.items():
        counter.visit_module(module, tree)
    found = []
    for module, tree in modules.items():
        for node in classes(tree):
            name = f"{module}.{node.name}"
            extended_by = counter.extended_by[name]
            if len(extended_by) != 1 or counter.uses[name] or name in BASES_OF_ONE:
                continue
            if any(module.startswith(p) and node.name.endswith(end) for p, end in GROUPS.items()):
                continue
            if not re.search(rf"\b{node.name}\b", others()):
                found.append(f"{name} is only the base of {extended_by[0]}")
    return found


def test_no_class_exists_only_to_be_the_base_of_one_other() -> None:
    none_of(halves(source(), users))


def test_the_rule_of_halves_finds_one_and_passes_over_what_is_used() -> None:
    program = """
class Appender: pass
class Accumulator(Appender): pass
class Shape: pass
class Circle(Shape): pass
def area(shape: Shape) -> int: return 0
class Reader: pass
class FileReader(Reader): pass
class MemoryReader(Reader): pass
"""
    same_names = "from odradek.log.c import Appender\nfrom odradek.log import c\nmade = Appender()"
    modules = {
        "odradek.log.a": ast.parse(program),
        "odradek.log.b": ast.parse(f"{same_names}\nclass Index(c.File): pass"),
        "odradek.log.c": ast.parse("class Appender: pass\nclass File: pass"),
    }
    assert halves(modules, lambda: "") == [
        "odradek.log.a.Appender is only the base of Accumulator",
        "odradek.log.c.File is only the base of Index",
    ]
    assert halves(modules, lambda: "appender = Appender()\nfile = File()") == []
