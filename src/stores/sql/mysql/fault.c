/* Faults in a flight: the database's errors, by the necessary reaction. */
#include "sql/mysql/turn.h"

#include <stdio.h>

void mysql_note_fault(struct mysql_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message)
{
    struct sql_fault *fault = &link->link.fault;
    if (fault->kind != SQL_FAULT_NONE)
        return;
    fault->kind = kind;
    (void)snprintf(fault->state, sizeof fault->state, "%s", state);
    (void)snprintf(fault->message, sizeof fault->message, "%s", message);
}

void mysql_note_no_memory(struct mysql_link *link)
{
    mysql_note_fault(link, SQL_FAULT_NO_MEMORY, "", "out of memory");
}

static const struct {
    unsigned number;
    enum sql_fault_kind kind;
} faults[] = {
    {1213, SQL_FAULT_PASSING}, /* deadlock */
    {1205, SQL_FAULT_PASSING}, /* lock wait timeout */
    {3572, SQL_FAULT_PASSING}, /* NOWAIT in MySQL */
    {1062, SQL_FAULT_PASSING}, /* another transaction inserted the key first */
    {1020, SQL_FAULT_PASSING}, /* a row has changed since it was read */
    {1048, SQL_FAULT_PASSING}, /* an extra row among those to be leased */
    {1412, SQL_FAULT_PASSING}, /* a table has changed, for example by a new day of the history */
    {1969, SQL_FAULT_PASSING}, /* max_statement_time */
    {3024, SQL_FAULT_PASSING},   {1021, SQL_FAULT_NO_SPACE},
    {1114, SQL_FAULT_NO_SPACE}, /* the table is full */
    {1153, SQL_FAULT_OTHER},    /* a packet above max_allowed_packet */
    {1026, SQL_FAULT_NO_SPACE}, /* cannot write a file, for example the binary log */
    {1290, SQL_FAULT_GONE},     /* read only */
    {1792, SQL_FAULT_GONE},      {1836, SQL_FAULT_GONE},
    {1053, SQL_FAULT_GONE},      {1927, SQL_FAULT_GONE}, /* killed */
    {3169, SQL_FAULT_GONE},      {4031, SQL_FAULT_GONE},
    {1037, SQL_FAULT_NO_MEMORY}, {1038, SQL_FAULT_NO_MEMORY},
    {1041, SQL_FAULT_NO_MEMORY},
};

/* Records the library's error. Returns true if the connection is lost. */
bool mysql_note_error(struct mysql_link *link)
{
    unsigned number = libmariadb.mysql_errno(link->mysql);
    const bool is_of_the_client = number >= 2000 && number < 3000;
    enum sql_fault_kind kind = SQL_FAULT_OTHER;
    if (!is_of_the_client && link->step < link->steps.count &&
        link->steps.at[link->step].is_optional)
        return false; /* all essential changes are committed */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (faults[i].number == number)
            kind = faults[i].kind;
    mysql_note_fault(link, is_of_the_client ? SQL_FAULT_GONE : kind,
                     libmariadb.mysql_sqlstate(link->mysql), libmariadb.mysql_error(link->mysql));
    return is_of_the_client;
}
