"""Every error the gateway raises on purpose.

    GatewayError                 the process cannot do what it was asked to: exit code and one sentence
    ├── ConfigurationError       a setting or an argument is wrong (exit code 2)
    └── RequestRefused           one client's request is refused: becomes a protocol answer, never an exit

What is not here: malformed bytes (``wire.errors``) and bugs, which stay ordinary exceptions and are
logged with their traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wire.codes import ResponseCode


class GatewayError(Exception):
    """Something the user has to know; ``str()`` is one sentence without a line break.

    ``exit_code`` is the status the command line ends with when nothing catches the error before it.
    """

    exit_code = 1

    def __init__(self, text: str, *, exit_code: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return self.text


class ConfigurationError(GatewayError):
    """A setting, a configuration file or a command line argument is wrong; nothing was started."""

    exit_code = 2


class RequestRefused(GatewayError):  # noqa: N818 (an answer, not a failure of ours)
    """A request is answered with ``code`` and ``remark`` instead of being carried out."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        return f"{self.code.name}: {self.remark}"
