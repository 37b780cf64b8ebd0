"""Runs the blocks of a page of documentation as a reader would: from top to bottom, in a directory of their own.

| block | what is done with it |
|---|---|
| ``python`` | run, all of a page in one namespace; its output must be that of a ``text`` block right behind it |
| ``python`` whose first line is ``# path.py`` | written to this file, for the blocks after it and for the page's test |
| ``sh`` | run by bash; its output must be that of a ``text`` or ``json`` block right behind it |
| ``sh`` with ``rocketmq-gateway serve`` | started on free ports, and used by the rest of the page |
| ``text``, ``json`` elsewhere | not run: what to type before anything works |

In expected output ``…`` stands for anything within a line. ``localhost:9876`` is the server that the test has started.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from compat_tests.environment import REPOSITORY
from compat_tests.peers import gateway_command

DOCS = REPOSITORY / "docs"
CLIENT_PAGES = (DOCS / "python-client.md", *sorted((DOCS / "python-client").glob("*.md")))
NAME_SERVER = "localhost:9876"
COMMAND_TIMEOUT_S = 60

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/.]+\.py)\n")
_OUTPUTS = ("text", "json")
_SERVE = "rocketmq-gateway serve "


@dataclass(frozen=True)
class Block:
    """One block between fences.

    :param line: of the page, where its text begins.
    :param expected: what it prints, when the page says so.
    """

    language: str
    text: str
    line: int
    expected: str | None

    @property
    def file(self) -> str | None:
        """Return the path to which to write the program, for blocks that are not run themselves."""
        named = _FILE.match(self.text) if self.language == "python" else None
        return named[1] if named is not None else None


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page in their order."""
    fences = list(_FENCE.finditer(text))
    blocks = []
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        follows = after is not None and after[1] in _OUTPUTS and not text[fence.end() : after.start()].strip()
        blocks.append(
            Block(
                fence[1],
                fence[2],
                text.count("\n", 0, fence.start(2)) + 1,
                after[2] if follows and after is not None else None,
            )
        )
    return blocks


class PageRun:
    """The blocks of one page being run.

    :param directory: empty; files are written there, and it is the current one of everything that runs.
    :param replaced: text of the page → what is run instead: addresses above all.
    """

    def __init__(self, page: Path, directory: Path, replaced: Mapping[str, str]) -> None:
        self.page = page
        self.directory = directory
        self.names: dict[str, Any] = {"__name__": "page"}
        self._replaced = dict(replaced)
        self._servers = contextlib.ExitStack()

    def run(self) -> None:
        """All blocks; an AssertionError when one prints something else than the page says."""
        with _within(self.directory), patch.dict(os.environ), self._servers:
            for block in blocks_of(self.page.read_text(encoding="utf-8")):
                self._run(block)

    def _run(self, block: Block) -> None:
        text = block.text
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        if block.file is not None:
            path = self.directory / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if block.language == "python":
            printed = self._run_python(text, block.line)
        elif text.startswith(_SERVE):
            self._serve(text)
            return
        elif block.language == "sh":
            printed = self._run_commands(text)
        else:
            assert block.language in _OUTPUTS, f"{self.page.name}:{block.line}: nobody runs {block.language!r}"
            return
        if block.expected is not None:
            place = f"{self.page.name}:{block.line}"
            assert _pattern(block.expected).fullmatch(printed), f"{place} prints\n{printed}\nnot\n{block.expected}"

    def _run_python(self, text: str, line: int) -> str:
        output = io.StringIO()
        code = compile("\n" * (line - 1) + text, str(self.page), "exec")  # so that a traceback names the page's line
        with contextlib.redirect_stdout(output):
            exec(code, self.names)
        return output.getvalue()

    def _serve(self, command: str) -> None:
        arguments = [*gateway_command(), *shlex.split(command)[1:], "--port", "0", "--nameserver-port", "0"]
        with Path("serve.log").open("wb") as log:
            server = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        self._servers.enter_context(server)
        self._servers.callback(server.terminate)
        assert server.stdout is not None
        ready = re.match("ready nameserver=(.*?) ", server.stdout.readline())
        assert ready is not None, Path("serve.log").read_text()
        self._replaced[NAME_SERVER] = ready[1]

    def _run_commands(self, text: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", text],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": path, "NAMESRV_ADDR": self._replaced.get(NAME_SERVER, NAME_SERVER)},
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


def _pattern(expected: str) -> re.Pattern[str]:
    return re.compile(".*?".join(re.escape(part) for part in expected.split("…")))


@contextlib.contextmanager
def _within(directory: Path) -> Iterator[None]:
    """Run in a directory whose modules can be imported; modules imported from there are forgotten afterwards."""
    known = set(sys.modules)
    sys.path.insert(0, str(directory))
    try:
        with contextlib.chdir(directory):
            yield
    finally:
        sys.path.remove(str(directory))
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(directory)):
                del sys.modules[name]
