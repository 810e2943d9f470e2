"""The clients for asyncio: the names of the blocking ones, to be awaited.

async with odradek.aio.Admin(brokers="localhost:9092") as admin:
    await admin.create_topic("orders")
"""

from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.aio.process import process
from odradek.client.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer", "process"]
