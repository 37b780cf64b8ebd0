"""Outcomes of transactions for the broker, recognised by the form of their headers (``known_forms``)."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace
from mypy_extensions import mypyc_attr

from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.compiled import IS_COMPILED
from wire.headers.transaction import EndTransactionRequest
from wire.quick.header_form import HeaderForm, Spot
from wire.quick.known_forms import OTHER_NUMBER, OTHER_WORD, FormReader, KnownForm

_SPOTS: Final = (
    Spot(b'"tranStateTableOffset":"', 18),
    Spot(b'"commitLogOffset":"', 18),
    Spot(b'"msgId":"', 0),
    Spot(b'"transactionId":"', 0),
)


@mypyc_attr(acyclic=True)
class EndedHeader:
    """The fields of an END_TRANSACTION that the broker needs, with the names in ``EndTransactionRequest``."""

    __slots__ = (
        "commit_log_offset",
        "commit_or_rollback",
        "from_transaction_check",
        "producer_group",
        "tran_state_table_offset",
    )

    def __init__(
        self,
        producer_group: str,
        tran_state_table_offset: int,
        commit_log_offset: int,
        commit_or_rollback: int,
        from_transaction_check: bool,
    ) -> None:
        self.producer_group = producer_group
        self.tran_state_table_offset = tran_state_table_offset
        self.commit_log_offset = commit_log_offset
        self.commit_or_rollback = commit_or_rollback
        self.from_transaction_check = from_transaction_check


def ended(header: EndTransactionRequest) -> EndedHeader:
    """Return the ``EndedHeader`` for a header that was parsed."""
    return EndedHeader(
        header.producer_group,
        header.tran_state_table_offset,
        header.commit_log_offset,
        header.commit_or_rollback,
        header.from_transaction_check,
    )


class EndForm(KnownForm):
    """A form of outcomes: they have the same group and outcome, and either all or none of them answer a check."""

    def __init__(self, shape: HeaderForm, command: RemotingCommand, header: EndTransactionRequest) -> None:
        super().__init__(shape, command)
        self._producer_group = header.producer_group
        self._commit_or_rollback = header.commit_or_rollback
        self._from_transaction_check = header.from_transaction_check

    def header_of(self, _text: bytes, /) -> object:
        """Return an ``EndedHeader``."""
        found = self.shape.found
        return EndedHeader(
            self._producer_group, found[0], found[2], self._commit_or_rollback, self._from_transaction_check
        )

    def with_others(self, fields: Any) -> Any:
        """Implement ``KnownForm.with_others``."""
        return replace(
            fields,
            tran_state_table_offset=OTHER_NUMBER,
            commit_log_offset=OTHER_NUMBER,
            msg_id=OTHER_WORD,
            transaction_id=OTHER_WORD,
        )


def _end_form(shape: HeaderForm, command: RemotingCommand, _sample: bytes) -> EndForm:
    header = command.header
    if command.code != RequestCode.END_TRANSACTION or type(header) is not EndTransactionRequest:
        raise ValueError(f"{header!r} of code {command.code} is no outcome")
    return EndForm(shape, command, header)


def end_reader(decode: Callable[[bytes], Any], *, learns: bool = IS_COMPILED) -> FormReader:
    """Return a reader for headers of END_TRANSACTION.

    If the form is known, ``RemotingCommand.header`` is an ``EndedHeader``.
    """
    return FormReader(decode, _SPOTS, _end_form, learns=learns)
