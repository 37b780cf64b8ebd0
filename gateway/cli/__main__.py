"""The program ``python -m gateway.cli``, for a checkout that is not installed."""

from gateway.cli.main import main

main()
