/* Every implementation there is. */
#include "driver.h"

extern const struct driver driver_local_1, driver_local_3, driver_lib, driver_lib_clock,
    driver_lib_dir_1, driver_lib_dir_3, driver_memory, driver_redis_1, driver_redis_3,
    driver_redis_cluster, driver_postgres, driver_mariadb, driver_mysql;

const struct driver *driver_find(const char *name)
{
    static const struct driver *const drivers[] = {
        &driver_naive,   &driver_local_1,   &driver_local_3,       &driver_memory,
        &driver_lib,     &driver_lib_clock, &driver_lib_dir_1,     &driver_lib_dir_3,
        &driver_redis_1, &driver_redis_3,   &driver_redis_cluster, &driver_postgres,
        &driver_mariadb, &driver_mysql,
    };

    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    return NULL;
}
