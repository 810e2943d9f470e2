"""What clients raise, by kind: see `odradek.client.errors`."""

from odradek.client.errors import *
from odradek.client.errors import __all__ as __all__
