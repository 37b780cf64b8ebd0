from __future__ import annotations

import pytest

from gateway.spark.errors import OptionRefused
from gateway.spark.pipelines.decoding import check_decoding


@pytest.mark.parametrize(
    ("body_format", "schema", "text"),
    [
        ("yaml", "id int", "must be one of bytes, json, csv, avro"),
        ("json", None, "with the format json a schema is missing"),
        ("bytes", "id int", "has no use"),
    ],
)
def test_a_format_and_a_schema_that_do_not_go_together_are_refused(
    body_format: str, schema: str | None, text: str
) -> None:
    with pytest.raises(OptionRefused, match=text):
        check_decoding(body_format, schema)


def test_bytes_need_no_schema_and_values_do() -> None:
    check_decoding("bytes", None)
    check_decoding("csv", "id int")
