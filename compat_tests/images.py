"""The images of the tests, built from `docker/*/Dockerfile` through the engine's own (legacy) builder.

The build context holds the same paths as the repository's top folder, but only the files an image needs: a
change elsewhere does not invalidate the builder's cache. The gateway's image takes the wheel that `make accelerate` has
compiled where it fits, so that a test run compiles once.

    python -m compat_tests.images     builds those of the tests (not of the matrix), so that they find them built
"""

from __future__ import annotations

import functools
import io
import tarfile
from pathlib import Path

from compat_tests.environment import REPOSITORY, engine

_CONTEXTS: dict[str, tuple[str, ...]] = {
    "java-client": ("docker/java-client", "compat_tests/java_client"),
    "go-client": ("docker/go-client", "compat_tests/go_client"),
    "cpp-client": ("docker/cpp-client", "compat_tests/cpp_client"),
    "node-client": ("docker/node-client", "compat_tests/node_client"),
    "grpc-client": ("docker/grpc-client", "compat_tests/grpc_client", "compat_tests/java_client"),
    "proxy": ("docker/proxy",),
    "rocketmq": ("docker/rocketmq", "compat_tests/java_client/src/compat/Ending.java"),
    "spring-client": ("docker/spring-client", "compat_tests/spring_client", "compat_tests/java_client"),
    "gateway": (
        "docker/gateway",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "NOTICE",
        "requirements.lock",
        "requirements-compile.lock",
        "wire",
        "gateway",
    ),
}


@functools.cache
def image(name: str, version: str = "") -> str:
    """Build `docker/<name>` and return its id; quick when nothing changed. `version` is ROCKETMQ_VERSION.

    Not its tag, which another checkout may have given to an image of its own meanwhile.
    """
    tag = f"gateway-compat/{name}:{version or 'latest'}"
    with engine() as client:
        log = client.api.build(
            fileobj=io.BytesIO(_context(name)),
            custom_context=True,
            dockerfile=f"docker/{name}/Dockerfile",
            tag=tag,
            rm=True,
            decode=True,
            buildargs={"ROCKETMQ_VERSION": version} if version else {},
        )
        said, built = "", ""
        for entry in log:
            said += entry.get("stream", "")
            built = entry.get("aux", {}).get("ID", built)
            if "error" in entry:
                raise RuntimeError(f"building {tag} failed:\n{said[-6000:]}{entry['error']}")
    return built


def _context(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for entry in _CONTEXTS[name]:
            path = REPOSITORY / entry
            if path.exists():
                tar.add(path, arcname=entry, filter=_wanted)
        wheel = _compiled_wheel() if name == "gateway" else None
        if wheel is not None:
            tar.add(wheel, arcname=wheel.name)
    return packed.getvalue()


def _compiled_wheel() -> Path | None:
    """The wheel of `make accelerate`, if it is made of these sources and runs in the image (Debian 12, Python 3.11)."""
    built = REPOSITORY / "build" / "accelerated" / ".built"
    wheels = list((REPOSITORY / "build" / "wheel").glob("rocketmq_gateway-*-cp311-cp311-linux_*.whl"))
    release = Path("/etc/os-release")
    if len(wheels) != 1 or not built.exists() or "VERSION_CODENAME=bookworm" not in release.read_text("utf-8"):
        return None
    sources = [
        REPOSITORY / "pyproject.toml",
        REPOSITORY / "hatch_build.py",
        *(
            path
            for top in ("wire", "gateway")
            for path in (REPOSITORY / top).rglob("*.py")
            if "tests" not in path.parts
        ),
    ]
    newest = max(path.stat().st_mtime for path in sources)
    return wheels[0] if newest <= built.stat().st_mtime else None


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(member.name).parts
    return None if "__pycache__" in parts or "tests" in parts else member


if __name__ == "__main__":
    for each in (("java-client",), ("gateway",), ("rocketmq", "5.5.0"), ("rocketmq", "4.9.8")):
        image(*each)
