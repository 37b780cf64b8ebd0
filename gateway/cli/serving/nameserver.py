"""``rocketmq-gateway nameserver``: a name server alone."""

from __future__ import annotations

import click

from gateway.cli.options import Sources, load_options, settings_options
from gateway.cli.serving.late_modules import load_deferreds


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
    load_deferreds()
    from gateway.cli.serving.run import run
    from gateway.settings.files.load import Role

    run(Role.NAMESERVER, load_options(Role.NAMESERVER, sources, **options))
