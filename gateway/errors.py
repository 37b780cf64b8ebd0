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


def forget_frames(error: BaseException) -> None:
    """Let go of the stack frames that an error keeps, and of what it came from. For errors that have been told of.

    A frame keeps its values and the frames that called it. One of them that knows the error, or a request that does,
    closes a circle, in which all of these values stay, bodies of megabytes among them.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None


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


class SettingsError(GatewayError):
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
