/*
 * schema_texts: the migrations of src/stores/sql/mysql, embedded in the program.
 */
#ifndef TARRY_SQL_MYSQL_SCHEMA_TEXTS_H
#define TARRY_SQL_MYSQL_SCHEMA_TEXTS_H

#include <stddef.h>

extern const char mysql_migration_1_text[];
extern const size_t mysql_migration_1_bytes;

#endif
