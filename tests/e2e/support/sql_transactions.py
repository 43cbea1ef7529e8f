"""
Random transactions of users that push, cancel and reschedule beside an orders table, half of them rolled back, some of their clients killed (kill -9)
in mid-commit: in the end the queue holds exactly the jobs of the orders that are there.

    python3 tests/e2e/support/sql_transactions.py [--transactions 10000] [--clients 8] [--kill 0.02]
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

sys.path[:0] = [os.path.dirname(__file__)]

from postgres import PostgresServer  # noqa: E402
from server import BINARY  # noqa: E402


def user(database, seed, first, transactions):
    """A client with orders of its own numbers; it may die at any moment."""
    dice = random.Random(seed)
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        for order in range(first, first + transactions):
            cursor.execute("INSERT INTO orders VALUES (%s)", (order,))
            cursor.execute("SELECT tarry.push('orders', %s::int::text, interval '1 hour')", (order,))
            if order > first and dice.random() < 0.3:
                gone = dice.randrange(first, order)
                cursor.execute("DELETE FROM orders WHERE id = %s", (gone,))
                cursor.execute("SELECT tarry.cancel('orders', %s::int::text)", (gone,))
            if dice.random() < 0.2:
                cursor.execute("SELECT tarry.reschedule('orders', %s::int::text, interval '2 hours')", (order,))
            if dice.random() < 0.5:
                connection.rollback()
            else:
                connection.commit()


def run(transactions, clients, kill, seed):
    dice = random.Random(seed)
    with PostgresServer("max_connections=60") as database:
        subprocess.run([str(BINARY), "sql", "migrate", database.url], check=True, stdout=subprocess.DEVNULL)
        database.do("CREATE TABLE orders (id int PRIMARY KEY)")
        left, first, killed, running = transactions, 0, 0, []
        while left > 0 or running:
            while left > 0 and len(running) < clients:
                part = min(left, 100)
                process = multiprocessing.get_context("fork").Process(target=user, args=(database, dice.random(), first, part))
                process.start()
                running.append(process)
                left, first = left - part, first + part
            time.sleep(0.01)
            for process in list(running):
                if process.is_alive() and dice.random() < kill:
                    os.kill(process.pid, signal.SIGKILL)
                    killed += 1
                if not process.is_alive():
                    process.join()
                    running.remove(process)
        database.do("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id::text FROM orders")
            orders = {row[0] for row in cursor.fetchall()}
            cursor.execute("SELECT id FROM tarry.jobs WHERE topic = 'orders'")
            jobs = {row[0] for row in cursor.fetchall()}
        fsck = subprocess.run([str(BINARY), "fsck", "--store", database.url], capture_output=True, text=True, check=False)
    print(f"seed {seed}: {transactions} transactions, {killed} clients killed, {len(orders)} orders, {len(jobs)} jobs; "
          f"without a job {len(orders - jobs)}, without an order {len(jobs - orders)}; fsck: {fsck.stdout.strip()}")
    return 0 if orders == jobs and fsck.returncode == 0 and orders else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--kill", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    return run(chosen.transactions, chosen.clients, chosen.kill, chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
