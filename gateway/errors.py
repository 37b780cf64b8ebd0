"""All errors that the gateway raises on purpose.

    GatewayError                 the process cannot do what it was asked to: exit code and one sentence
    ├── SettingsError            a setting or an argument is wrong (exit code 2)
    └── RequestRefused           one client's request is refused: becomes a protocol answer, never an exit

Other errors are elsewhere: malformed bytes are in ``wire.errors``. Bugs stay ordinary exceptions and are logged with
their traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wire.codes import ResponseCode


def forget_frames(error: BaseException) -> None:
    """Release the stack frames of an error, its cause and its context. For errors that have been reported.

    A frame keeps its values and the frames that called it. If one of these values refers to the error, or to a request
    that does, the references form a circle. All values in the circle stay in memory, including bodies of megabytes.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None


class GatewayError(Exception):
    """An error that the user must know about; ``str()`` is one sentence without a line break.

    ``exit_code`` is the exit status of the command line if nothing catches the error.
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
    """A request is answered with ``code`` and ``remark`` and is not carried out."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        return f"{self.code.name}: {self.remark}"
