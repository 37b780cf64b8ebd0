"""The question: what do accounts cost, and how does a server with TLS and accounts compare with Apache RocketMQ's.

    python -m benchmarks.signed                       three rounds: eight minutes
    python -m benchmarks.signed --rounds 1 --seconds 5 --parts accounts

The same stock Java client with 64 threads sends to two servers in turn, without a wait for the disk. Read the ratios
only. ``accounts``: a gateway that is open, and one to which a user sends who may send to this topic and nothing else;
messages a second and the server's processor time for one. ``apache``: such users of the gateway and of Apache RocketMQ,
over TLS with the certificates that both make at the start. PYTHONSAFEPATH=1 and PYTHONPATH=build/accelerated:. time the
compiled packages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.encrypted import ENCRYPTED, PLAIN, load
from benchmarks.java_tools import jars, tool
from benchmarks.rounds import tell_rounds
from benchmarks.servers import Kind, Server, serving
from gateway.client import AdminClient, ClientSettings

ADMIN = ("operator", "secret-of-operator")
SENDER = ("sender", "secret-of-sender")
SIGNED = ("--user", SENDER[0], "--password", SENDER[1])
PROVIDER = "org.apache.rocketmq.auth.{0}.provider.Local{1}MetadataProvider"
ACCOUNTS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": PROVIDER.format("authentication", "Authentication"),
    "authorizationMetadataProvider": PROVIDER.format("authorization", "Authorization"),
    "initAuthenticationUser": json.dumps({"username": ADMIN[0], "password": ADMIN[1]}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN[0], "secretKey": ADMIN[1]}),
}
"""Settings by the names that both servers have for them."""
PARTS = ("accounts", "apache")


@contextmanager
def guarded(kind: Kind) -> Iterator[Server]:
    """A server with accounts, with the topic and with the user who may send to it."""
    with serving(kind, settings=ACCOUNTS) as server:
        settings = ClientSettings(namesrv=server.nameserver, access_key=ADMIN[0], secret_key=ADMIN[1])
        with AdminClient(settings) as admin:
            admin.topics.create("Bench", queues=8)
        administer(server, "createUser", "-u", SENDER[0], "-p", SENDER[1])
        administer(server, "createAcl", "-s", f"User:{SENDER[0]}", "-r", "Topic:Bench", "-a", "Pub", "-d", "Allow")
        yield server


def administer(server: Server, command: str, *options: str) -> None:
    """Run a command of Apache's ``mqadmin`` as the administrator."""
    keys = server.directory / "conf" / "tools.yml"
    keys.parent.mkdir(exist_ok=True)
    keys.write_text(f"accessKey: {ADMIN[0]}\nsecretKey: {ADMIN[1]}\n")
    java = [tool("java", "openjdk-17-jre-headless"), f"-Drocketmq.home.dir={server.directory}"]
    java += ["-cp", f"{jars('rocketmq')}/*", "org.apache.rocketmq.tools.command.MQAdminStartup"]
    subprocess.run(
        [*java, command, "-n", server.nameserver, "-c", "DefaultCluster", *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    """Print one line for each part and round, and the medians."""
    options = _options()
    parts = {"accounts": _accounts, "apache": _apache}
    for part in options.parts.split(","):
        tell_rounds(part, parts[part](options.rounds, options.seconds))


def _accounts(rounds: int, seconds: int) -> Iterator[dict[str, float]]:
    with serving("gateway") as server, guarded("gateway") as other:
        for _ in range(rounds):
            yield _compared("open", load(server, seconds, PLAIN), "signed", load(other, seconds, PLAIN, SIGNED))


def _apache(rounds: int, seconds: int) -> Iterator[dict[str, float]]:
    with guarded("apache") as server, guarded("gateway") as other:
        for _ in range(rounds):
            found = [load(each, seconds, ENCRYPTED, SIGNED) for each in (server, other)]
            yield _compared("apache", found[0], "gateway", found[1])


def _compared(one: str, first: dict[str, Any], other: str, second: dict[str, Any]) -> dict[str, float]:
    return {
        f"{one}_per_s": first["tps"],
        f"{other}_per_s": second["tps"],
        f"{other}_of_{one}": second["tps"] / first["tps"],
        f"{one}_server_us": first["server_cpu_us"],
        f"{other}_server_us": second["server_cpu_us"],
        f"{one}_client_us": first["client_cpu_us"],
        f"{other}_client_us": second["client_cpu_us"],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--parts", default=",".join(PARTS), help="only these, comma-separated")
    return parser.parse_args()


if __name__ == "__main__":
    main()
