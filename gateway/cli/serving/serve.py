"""The commands ``rocketmq-gateway serve``, ``broker`` and ``nameserver``."""

from __future__ import annotations

import click

from gateway.cli.options import Sources, load_options, settings_options
from gateway.cli.serving.late_modules import load_twisted

MAX_BROKERS = 64
"""The most brokers of one command; far more than a machine has cores."""


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway serve --data ./data
      serve this machine; clients use the name server 127.0.0.1:9876
  rocketmq-gateway serve --data /var/lib/rocketmq --bind 0.0.0.0
      serve every network of this machine (set aclEnable or authenticationEnabled first)
  rocketmq-gateway serve -c broker.conf --set flushDiskType=ASYNC_FLUSH
      take an existing Apache RocketMQ configuration, and change one setting
  rocketmq-gateway serve --bind 0.0.0.0 --advertise mq.example.org:30911
      behind a port mapping: tell clients the address they can reach
  rocketmq-gateway serve --data ./data --port 0 --nameserver-port 0
      for tests: free ports, printed in the line that begins with "ready"
  rocketmq-gateway serve --data ./data --brokers 4
      four brokers in one cluster, for more cores: ports 10911, 10921, ..., files in broker-0, broker-1, ...

\b
Standard output gets one line when clients may connect:
  ready nameserver=HOST:PORT broker=HOST:PORT (broker= once for each, and
  advertised=HOST:PORT after it when clients are told another address)
Standard error gets the log. SIGTERM or Ctrl-C: finish, flush, exit 0.
"""
)
@click.option(
    "--brokers",
    metavar="N",
    type=click.IntRange(1, MAX_BROKERS),
    default=1,
    help="Brokers to run, from 2 on each in a process of its own that is started again when it ends (default: 1).",
)
@settings_options("--port", "--nameserver-port", "--nameserver", "--advertise")
def serve(sources: Sources, brokers: int, **options: str | None) -> None:
    """Run a name server and a broker in one process, or several brokers in processes of their own."""
    from dataclasses import replace

    from gateway.cli.serving.kept_name import with_kept_name
    from gateway.cli.serving.members import check_directory, members
    from gateway.cli.serving.ordered_role import with_ordered_role

    load_twisted()
    from gateway.cli.serving.run import run
    from gateway.settings.files.load import Role

    loaded = load_options(Role.SERVE, sources, **options)
    check_directory(loaded.settings.store_path_root_dir, brokers)
    if brokers == 1:
        run(Role.SERVE, with_ordered_role(with_kept_name(loaded)), members=())
        return
    found = members(loaded, brokers)
    remarks = [member.remark for member in found if member.remark is not None]
    run(Role.SERVE, replace(loaded, remarks=(*loaded.remarks, *remarks)), members=found)


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway broker -n 127.0.0.1:9876 --data ./data
      register with a name server, ours or Apache's
  rocketmq-gateway broker -n 'ns1:9876;ns2:9876' --bind 0.0.0.0 --advertise mq1.example.org
      join a cluster whose clients reach this machine as mq1.example.org
  NAMESRV_ADDR=ns1:9876 rocketmq-gateway broker -c broker.conf
      as Apache's image is started

Standard output gets one line when clients may connect: ready broker=HOST:PORT
and advertised=HOST:PORT when clients are told another address
"""
)
# What serve --brokers starts: it ends with its standard input, and its log lines name it.
@click.option("--supervised", is_flag=True, hidden=True)
@settings_options("--port", "--nameserver", "--advertise")
def broker(sources: Sources, supervised: bool, **options: str | None) -> None:
    """Run a broker that registers with name servers elsewhere."""
    load_twisted()
    from gateway.cli.serving.kept_name import with_kept_name
    from gateway.cli.serving.ordered_role import with_ordered_role
    from gateway.cli.serving.run import run
    from gateway.errors import SettingsError
    from gateway.settings.files.load import Role

    loaded = with_ordered_role(with_kept_name(load_options(Role.BROKER, sources, **options)))
    if not loaded.settings.name_server_addresses:
        raise SettingsError(
            "a broker needs a name server: give -n HOST:PORT, or use the command serve, which brings its own"
        )
    run(Role.BROKER, loaded, supervised=supervised)


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway nameserver --data ./data
      brokers (ours or Apache's) register at 127.0.0.1:9876
  rocketmq-gateway nameserver -c namesrv.conf --bind 0.0.0.0
      in this file listenPort is the port of the name server

Standard output gets one line when clients may connect: ready nameserver=HOST:PORT
"""
)
@settings_options("--port")
def nameserver(sources: Sources, **options: str | None) -> None:
    """Run a name server alone."""
    load_twisted()
    from gateway.cli.serving.run import run
    from gateway.settings.files.load import Role

    run(Role.NAMESERVER, load_options(Role.NAMESERVER, sources, **options))
