"""The group coordinator: the classic rebalance protocol, and the offsets that groups commit."""
