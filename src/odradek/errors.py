"""The errors that clients raise: see `odradek.client.errors`."""

from odradek.client.errors import *
from odradek.client.errors import __all__ as __all__
