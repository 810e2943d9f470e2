"""The version of this package. It is in the lowest package, so that every other may import it."""

from typing import Final

VERSION: Final = "0.1.0"
