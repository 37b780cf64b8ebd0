import os

import pytest

from gateway.client import process


def test_it_is_the_process_id() -> None:
    assert process.number == os.getpid()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_another_one() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if process.number == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
