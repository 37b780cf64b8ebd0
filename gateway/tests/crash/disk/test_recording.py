"""The disk in memory takes every call itself: none reaches the files of the operating system."""

from __future__ import annotations

import pytest

from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.store.disk.files import FileLayer
from gateway.tests.crash.disk.recording import RecordingFiles


@pytest.mark.parametrize("layer", [FileLayer, ConfigDisk])
def test_every_operation_is_one_of_the_disk_in_memory(layer: type[object]) -> None:
    operations = {name for name in vars(layer) if not name.startswith("_")}
    assert len(operations) > 9
    assert operations <= vars(RecordingFiles).keys()
