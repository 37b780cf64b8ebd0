"""The command as a whole: help that teaches, errors of one line, exit codes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from http import cookiejar
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.serving.late_modules import is_coroutine, load_twisted, put_off

COMMANDS = ["serve", "broker", "nameserver", "config", "version"]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner(env={"NAMESRV_ADDR": None})


def test_help_names_every_command_and_the_first_step(runner: CliRunner) -> None:
    result = runner.invoke(cli, ["--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert command in result.output
    assert "rocketmq-gateway serve --data ./data" in result.output


@pytest.mark.parametrize("command", ["serve", "broker", "nameserver", "config"])
def test_the_help_of_each_command_has_examples(runner: CliRunner, command: str) -> None:
    result = runner.invoke(cli, [command, "-h"])
    assert result.exit_code == 0
    assert "Examples:\n    rocketmq-gateway " in result.output or "Examples:\n  " in result.output
    for option in ("--config", "--set", "--data", "--bind"):
        assert option in result.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["serve", "--port", "x"], "listenPort='x' (--port): expected an integer from 0 to 65535"),
        (["serve", "--advertise", "a b"], "gateway.advertise='a b' (--advertise): expected auto, HOST or"),
        (["serve", "-c", "/no/such.conf"], "cannot read /no/such.conf: No such file or directory"),
        (["serve", "--set", "nonsense"], "--set 'nonsense': expected KEY=VALUE"),
        (["nameserver", "--port", "-1"], "gateway.nameserverPort='-1' (--port): expected an integer"),
        (["broker"], "a broker needs a name server: give -n HOST:PORT"),
        (["broker", "-n", "nowhere"], "namesrvAddr='nowhere' (--nameserver): expected HOST:PORT"),
        (
            ["config", "--set", "brokerRole=SLAVE"],
            "brokerId=0 (default) and brokerRole=SLAVE (--set): a master has id 0",
        ),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(runner: CliRunner, arguments: list[str], error: str) -> None:
    result = runner.invoke(cli, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {error}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [["surve"], ["serve", "--prot", "1"], ["serve", "extra"]])
def test_a_wrong_word_is_a_usage_error(runner: CliRunner, arguments: list[str]) -> None:
    result = runner.invoke(cli, arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_point_19_no_option_is_suggested_for_its_opposite(runner: CliRunner) -> None:
    assert "Did you mean '--bind'" in runner.invoke(cli, ["serve", "--binf", "::"]).stderr
    result = runner.invoke(cli, ["serve", "--no-bind", "::"])
    assert result.exit_code == 2
    assert "No such option '--no-bind'." in result.stderr
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("argument", ["--help", "version"])
def test_what_needs_no_server_loads_none(argument: str) -> None:
    # A process of its own: which modules are loaded here depends on the other tests.
    code = (
        "import sys\nfrom gateway.cli.main import main\n"
        f"sys.argv = ['rocketmq-gateway', {argument!r}]\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'twisted', 'construct', 'msgspec', 'asyncio'} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert "rocketmq-gateway" in done.stdout


def assert_runs(code: str) -> None:
    """Check that the code runs in a new process, which has loaded nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_twisted_does_not_bring_what_no_server_uses() -> None:
    code = (
        "import sys\nfrom gateway.cli.main import main\n"
        "sys.argv = ['rocketmq-gateway', 'version']\n"
        "try:\n    main()\nfinally:\n"
        "    from gateway.cli.serving.late_modules import load_twisted\n"
        "    load_twisted()\n"
        "    import twisted.internet.epollreactor\n"
        "    brought = {'urllib.request', 'http.client', 'email'} & set(sys.modules)\n"
        "    assert not brought, brought\n"
        "    from http import cookiejar\n"
        "    assert len(cookiejar.CookieJar()) == 0\n"
        "    assert 'urllib.request' in sys.modules\n"
    )
    assert_runs(code)


def test_a_server_is_loaded_without_asyncio_and_tls_which_work_afterwards() -> None:
    code = (
        "import sys\nfrom gateway.cli.serving.late_modules import load_twisted, put_off\n"
        "put_off()\nload_twisted()\n"
        "import gateway.cli.serving.run, gateway.cli.serving.servers\n"
        "import gateway.broker.service, gateway.nameserver.service\n"
        "import twisted.internet.epollreactor, gateway.reactor.quick_epoll\n"
        "brought = {'asyncio', 'ssl', 'OpenSSL', 'cryptography'} & set(sys.modules)\n"
        "assert not brought, brought\n"
        "import asyncio\n"
        "from twisted.internet.defer import Deferred, ensureDeferred\n"
        "async def three(): return 3\n"
        "assert asyncio.run(three()) == 3\n"
        "came = []\n"
        "ensureDeferred(three()).addCallback(came.append)\n"
        "assert came == [3], came\n"
        "async def of_a_loop():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    deferred = Deferred()\n"
        "    future = deferred.asFuture(loop)\n"
        "    assert isinstance(future, asyncio.Future)\n"
        "    deferred.callback(5)\n"
        "    return await future\n"
        "assert asyncio.run(of_a_loop()) == 5\n"
        "import gateway.remoting.tls.link\n"
        "assert 'OpenSSL' in sys.modules\n"
    )
    assert_runs(code)


@pytest.mark.parametrize("thing", [(letter for letter in "ab"), 3, print, object()])
def test_what_a_coroutine_is(thing: object) -> None:
    assert is_coroutine(thing) == asyncio.iscoroutine(thing)


def test_a_coroutine_is_one() -> None:
    async def work() -> None: ...

    started = work()
    assert is_coroutine(started)
    started.close()


def test_a_module_that_is_loaded_already_stays() -> None:
    put_off()
    assert sys.modules["http.cookiejar"] is cookiejar
    connections = import_module("twisted.internet.posixbase")
    load_twisted()
    assert sys.modules["asyncio"] is asyncio
    assert sys.modules["twisted.internet.posixbase"] is connections
