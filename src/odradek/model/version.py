"""The version of this package, for all that name it: below every package that may need it."""

from typing import Final

VERSION: Final = "0.1.0"
