import pytest

from tenuto.tools.docstring import parse_docstring

GOOGLE = """Find it.

    More: of this.

    Args:
        name: The name: all
            of it.
        *rest (list of int, optional): Others.

    Raises:
        ValueError: Never.
    """
NUMPY = """Find it.

    More: of this.

    Parameters
    ----------
    name : str
        The name: all
        of it.
    rest : list of int, optional
        Others.

    Returns
    -------
    int
        Something.
    """
REST = """Find it.

    More: of this.

    :param name: The name: all
        of it.
    :type name: str
    :param list rest: Others.
    :returns: Something.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_three_styles_say_the_same(text):
    found = parse_docstring(text)
    assert found.text == "Find it.\n\nMore: of this."
    assert found.parameters == {"name": "The name: all of it.", "rest": "Others."}


def test_an_unknown_style_loses_nothing():
    found = parse_docstring("Find it.\n\nname - the name")
    assert found.text == "Find it.\n\nname - the name"
    assert not found.parameters
    assert not parse_docstring("").text
