#!/usr/bin/env python3
"""An order that is not paid within half an hour is closed, by a queue inside the program. Half an hour passes immediately: its clock is a test clock."""

import libtarry


class Orders:
    def __init__(self, queue):
        self.queue = queue

    def place(self, number):
        """The job has the order's own number, so any code with the order can cancel it."""
        self.queue.push("orders", {"order": number}, id=number, delay=30 * 60)
        print(f"order {number} placed")

    def pay(self, number):
        if self.queue.cancel("orders", number):
            print(f"order {number} paid, nothing to close")

    def close_overdue(self):
        """A real worker runs without end: without `wait` it waits for the next order."""
        for job in self.queue.take_each("orders", wait=0):
            print(f"order {job.json()['order']} closed: not paid in time")
            job.ack()


with libtarry.open(test_clock=True) as queue:  # a program that is not a test leaves that out
    orders = Orders(queue)
    orders.place("1001")
    orders.place("1002")
    queue.advance(29 * 60)
    orders.pay("1001")
    orders.close_overdue()
    print("a minute later")
    queue.advance(60.001)
    orders.close_overdue()
