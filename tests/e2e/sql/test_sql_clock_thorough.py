"""tarry serve on a database whose clock is set or slewed: nothing comes early, no lease ends early, and all calls continue."""

from mariadb import MariadbServer
from postgres import PostgresServer
from sql_clock import ClockClaims, ThoroughClockClaims


class TestPostgres(ThoroughClockClaims):
    database_class = PostgresServer


class TestMariadb(ClockClaims, ThoroughClockClaims):
    database_class = MariadbServer
