"""The asserts of what all stores share are explained, whichever module is collected first."""

import pytest

pytest.register_assert_rewrite("tests.store.conformance", "tests.store.conformance_threads")
