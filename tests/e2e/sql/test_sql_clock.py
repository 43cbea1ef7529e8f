"""tarry serve on a PostgreSQL whose clock is set: nothing comes early, and all calls continue."""

from postgres import PostgresServer
from sql_clock import ClockClaims


class TestPostgres(ClockClaims):
    database_class = PostgresServer
