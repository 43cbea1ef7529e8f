"""tarry serve on a PostgreSQL whose DBA has set something: the rows of the table that make test leaves out."""

import pytest
from sql_settings import rows
from test_sql_settings import SETTINGS, SHORT, check, postgres  # pylint: disable=unused-import


@pytest.mark.parametrize("setting", rows([setting for setting in SETTINGS if setting not in SHORT]))
def test_setting_works_or_is_refused_by_name(postgres, start_server, setting):  # pylint: disable=redefined-outer-name
    check(postgres, start_server, setting)
