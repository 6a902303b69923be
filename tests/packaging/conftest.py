"""Fixtures: what `make install` puts into a folder of the test's own."""

import pytest
from installing import make


@pytest.fixture
def stage(tmp_path):
    """A folder as DESTDIR, with the default PREFIX installed."""
    destination = tmp_path / "stage"
    make("install", f"DESTDIR={destination}")
    return destination


@pytest.fixture
def prefix(tmp_path):
    """A folder as PREFIX, installed there for good: the paths in the files are true."""
    folder = tmp_path / "prefix"
    make("install", f"PREFIX={folder}")
    return folder
