"""Statements that servers run without a request read no backlog: rows and pages are counted, statement by statement, and not time.

`TARRY_TEST_BACKLOG=1000000` measures with a million jobs; docs/operations/databases.md has the figures of that.
"""

import os

import pytest
import sql_costs

BACKLOG = int(os.environ.get("TARRY_TEST_BACKLOG", "200000"))
ROWS_MAX = 1000  # a step of the upkeep; far below the backlog
PAGES_MAX = 450  # an index of the backlog has 1,000; a condition that excludes all rows reads its pages, too
PAGES_PER_ROW = 4  # a row that is found by its key


class BadPlans(sql_costs.Postgres):
    """A DBA has switched off what servers rely on."""

    log_settings = (*sql_costs.Postgres.log_settings, "enable_indexscan=off", "enable_indexonlyscan=off", "enable_nestloop=off")


class NoAutovacuum(sql_costs.Postgres):
    """Nothing but the servers renews the statistics."""

    log_settings = (*sql_costs.Postgres.log_settings, "autovacuum=off")


@pytest.fixture(scope="module", params=[sql_costs.Postgres, sql_costs.Mariadb], ids=["postgres", "mariadb"])
def measured(request):
    """(statements by kind, the column of the database)."""
    return sql_costs.by_kind(sql_costs.measure(request.param, BACKLOG), request.param.column), request.param.column


@pytest.mark.parametrize("kind", sql_costs.KINDS, ids=lambda row: row[0])
def test_statement_without_a_request_reads_no_backlog(measured, kind):
    found, column = measured
    if not kind[column]:
        pytest.skip("this database does not need the statement")
    worst = max(found[kind[0]], key=lambda statement: statement.rows)
    assert worst.rows <= ROWS_MAX, (worst.rows, worst.text)
    worst = max(found[kind[0]], key=lambda statement: statement.pages - PAGES_PER_ROW * statement.rows)
    assert worst.pages - PAGES_PER_ROW * worst.rows <= PAGES_MAX, (worst.pages, worst.rows, worst.text)


def test_no_other_statement_reads_the_backlog(measured):
    worst = max(measured[0][None], key=lambda statement: statement.rows)
    assert worst.rows <= ROWS_MAX, (worst.rows, worst.text)


@pytest.mark.parametrize("database", [sql_costs.Postgres, sql_costs.Mariadb], ids=["postgres", "mariadb"])
def test_figures_read_no_deleted_rows_that_a_snapshot_keeps(database):
    counts, statements = sql_costs.measure_figures(database, 100_000)
    assert [(each["delayed"], each["ready"]) for each in counts] == [(1, 0), (1, 0), (1, 20), (1, 20)]
    found = sql_costs.by_kind(statements, database.column)["counts of topics, for figures and alerts"]
    worst = max(found, key=lambda statement: statement.pages)
    assert len(found) >= 4 and worst.pages <= PAGES_MAX, (worst.pages, worst.text)


def test_planner_settings_of_a_dba_make_no_server_read_the_backlog():
    """Statements of applications are left out: their sessions have the settings of the DBA."""
    statements = [statement for statement in sql_costs.measure(BadPlans, BACKLOG) if statement.is_of_a_server]
    worst = max(statements, key=lambda statement: statement.rows)
    assert len(statements) > 500 and worst.rows <= ROWS_MAX, (worst.rows, worst.text)
    adoptions = [statement for statement in statements if sql_costs.kind_of(statement, BadPlans.column) == "take over leases of a failed server"]
    assert max(statement.pages for statement in adoptions) <= PAGES_MAX


def test_plans_that_were_made_for_empty_tables_do_not_read_a_backlog():
    statements = [statement for statement in sql_costs.measure(NoAutovacuum, BACKLOG // 2, is_planned_empty=True) if statement.is_of_a_server]
    worst = max(statements, key=lambda statement: statement.rows)
    assert len(statements) > 100 and worst.rows <= ROWS_MAX, (worst.rows, worst.text)
