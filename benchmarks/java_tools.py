"""Jars from Maven Central and the compiled load programs, kept in a cache directory."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = REPOSITORY / "var" / "benchmarks"
APACHE_VERSION = "5.5.0"
CLIENT_FLAGS = ("-Xms512m", "-Xmx512m")
# A reader of a backlog holds many messages at once.
READER_FLAGS = ("-Xms1g", "-Xmx1g")


class BenchmarkError(Exception):
    """A measurement could not be made; the text says why."""


def jars(name: str) -> Path:
    """The jars listed by `docker/<name>/pom.xml`, fetched by Maven once."""
    pom = REPOSITORY / "docker" / name / "pom.xml"
    return listed_jars(pom, CACHE / f"{name}-{APACHE_VERSION}", f"-Drocketmq.version={APACHE_VERSION}")


def listed_jars(pom: Path, target: Path, *settings: str) -> Path:
    """The jars listed by a pom, fetched by Maven once into a directory, which is returned."""
    if not (target / "complete").exists():
        command = [tool("mvn", "maven"), "-B", "-ntp", "-q", "-f", str(pom), *settings, "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        subprocess.run(command, check=True)
        (target / "complete").touch()
    return target


def programs() -> str:
    """The class path of the load programs in `benchmarks/java`, compiled when they changed."""
    sources = sorted((REPOSITORY / "benchmarks" / "java").glob("*.java"))
    client = jars("java-client")
    target = CACHE / "classes"
    newest = max(path.stat().st_mtime for path in sources)
    stamp = target / "complete"
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        target.mkdir(parents=True, exist_ok=True)
        command = [tool("javac", "openjdk-17-jdk-headless"), "-encoding", "UTF-8", "-cp", f"{client}/*"]
        subprocess.run([*command, "-d", str(target), *map(str, sources)], check=True)
        stamp.touch()
    return f"{target}:{client}/*"


def tool(name: str, package: str) -> str:
    """The path of a program.

    :raises BenchmarkError: it is not installed; ``package`` is Debian's with it.
    """
    path = shutil.which(name)
    if path is None:
        raise BenchmarkError(f"{name} is missing; on Debian: apt-get install {package}")
    return path


@dataclass(frozen=True, slots=True)
class Running:
    """A load program that was started and not waited for."""

    process: subprocess.Popen[str]

    def result(self, timeout_s: float = 300.0) -> dict[str, Any]:
        """Its one line of JSON.

        :raises BenchmarkError: there is none, or not in time; the program is gone then.
        """
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)  # a JVM tells what its threads do
            time.sleep(1)  # noqa: TID251 - it is printed by another process
            self.process.kill()
            out, err = self.process.communicate()
            raise BenchmarkError(f"{self.process.args!r} did not end in {timeout_s:.0f} s:\n{err}{out}") from None
        except BaseException:
            self.process.kill()
            raise
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if not lines:
            raise BenchmarkError(f"{self.process.args!r} printed no result:\n{out[-2000:]}{err[-2000:]}")
        result: dict[str, Any] = json.loads(lines[-1])
        return result

    def wait_for_start(self) -> None:
        """Until the program says that its own start-up is over (`Ready` does)."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "waiting" in line:
                return


def start_program(name: str, *arguments: str, flags: tuple[str, ...] = CLIENT_FLAGS) -> Running:
    """Start one of `benchmarks/java` in a JVM of its own."""
    command = [tool("java", "openjdk-17-jre-headless"), *flags, "-cp", programs(), name, *arguments]
    pipe = subprocess.PIPE
    return Running(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=CACHE))


def run_program(name: str, *arguments: str, flags: tuple[str, ...] = CLIENT_FLAGS) -> dict[str, Any]:
    """Run one of `benchmarks/java` to its end; its result."""
    return start_program(name, *arguments, flags=flags).result()
