"""``rocketmq-gateway serve``: name server and broker in one process."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.options import load_options, settings_options


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway serve --data ./data
      serve this machine; clients use the name server 127.0.0.1:9876
  rocketmq-gateway serve --data /var/lib/rocketmq --bind 0.0.0.0
      serve every network of this machine (there is no authentication yet)
  rocketmq-gateway serve -c broker.conf --set flushDiskType=ASYNC_FLUSH
      take an existing Apache RocketMQ configuration, and change one setting
  rocketmq-gateway serve --bind 0.0.0.0 --advertise mq.example.org:30911
      behind a port mapping: tell clients the address they can reach
  rocketmq-gateway serve --data ./data --port 0 --nameserver-port 0
      for tests: free ports, printed in the line that begins with "ready"

\b
Standard output gets one line when clients may connect:
  ready nameserver=HOST:PORT broker=HOST:PORT
Standard error gets the log. SIGTERM or Ctrl-C: finish, flush, exit 0.
"""
)
@settings_options("--port", "--nameserver-port", "--nameserver", "--advertise")
def serve(config_file: Path | None, assignments: tuple[str, ...], **options: str | None) -> None:
    """Run a name server and a broker in one process."""
    from gateway.cli.run import run
    from gateway.settings.load import Role

    run(Role.SERVE, load_options(Role.SERVE, config_file, assignments, **options))
