/* A real Mosquitto, whose log counts the messages that it has acknowledged. */
#include "program.h"
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SERVER "/usr/sbin/mosquitto"
enum { READY_TRIES = 1000, READY_US = 10 * 1000 };

static const char *missing(void)
{
    return access(SERVER, X_OK) == 0 ? NULL : "mosquitto is not installed";
}

static void write_config(char path[128])
{
    snprintf(path, 128, "%s/mosquitto.conf", program_directory());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "listener %d 127.0.0.1\nallow_anonymous true\npersistence false\n"
            "max_queued_messages 0\nuser root\nlog_dest file %s/log\n"
            "log_type all\n",
            program_port(), program_directory());
    fclose(file);
}

static void start(void)
{
    char path[128];
    write_config(path);
    const char *const words[] = {SERVER, "-c", path, NULL};
    program_start(words);
    for (int i = 0; i < READY_TRIES; i++) {
        int fd = program_connect();
        if (fd >= 0) {
            close(fd);
            return;
        }
        usleep(READY_US);
    }
    fail_msg("mosquitto does not listen");
}

/* Counts the messages that its log reports as acknowledged. */
static size_t count(void)
{
    char path[128], line[1024];
    size_t taken = 0;
    snprintf(path, sizeof path, "%s/log", program_directory());
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        taken += strstr(line, "Sending PUBACK") != NULL;
    if (file)
        fclose(file);
    return taken;
}

static const char *to(void)
{
    return program_url("mqtt");
}

const struct target_rig rig_mqtt = {.name = "mqtt",
                                    .missing = missing,
                                    .start = start,
                                    .stop = program_stop,
                                    .stall = program_stall,
                                    .count = count,
                                    .to = to,
                                    .setting = "",
                                    .back_ms = 5000};
