"""The clients for asyncio: the names of the blocking ones, to be awaited.

async with odradek.aio.Admin(brokers="localhost:9092") as admin:
    await admin.create_topic("orders")
"""

from odradek.client.aio.admin import Admin

__all__ = ["Admin"]
