/*
 * schema_texts: the migrations of src/stores/sql/postgres, embedded in the program.
 */
#ifndef TARRY_SQL_POSTGRES_SCHEMA_TEXTS_H
#define TARRY_SQL_POSTGRES_SCHEMA_TEXTS_H

#include <stddef.h>

extern const char postgres_migration_1_text[];
extern const size_t postgres_migration_1_bytes;

#endif
