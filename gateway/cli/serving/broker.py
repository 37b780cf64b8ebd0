"""``rocketmq-gateway broker``: a broker that registers with name servers elsewhere."""

from __future__ import annotations

import click

from gateway.cli.options import Sources, load_options, settings_options
from gateway.cli.serving.late_modules import load_deferreds


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
    load_deferreds()
    from gateway.cli.serving.kept_name import with_kept_name
    from gateway.cli.serving.run import run
    from gateway.errors import SettingsError
    from gateway.settings.files.load import Role

    loaded = with_kept_name(load_options(Role.BROKER, sources, **options))
    if not loaded.settings.name_server_addresses:
        raise SettingsError(
            "a broker needs a name server: give -n HOST:PORT, or use the command serve, which brings its own"
        )
    run(Role.BROKER, loaded, supervised=supervised)
