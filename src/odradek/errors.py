"""What clients raise, by kind: see `odradek.client.errors`."""

from odradek.client import errors
from odradek.client.consumer.subscription_state import IllegalState as IllegalState
from odradek.client.errors import *

__all__ = ["IllegalState"]
__all__ += errors.__all__
