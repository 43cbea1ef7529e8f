/* beanstalkd's flags, as tarry's: for suites that start the server themselves. Without -b the data lies below TMPDIR. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    const char *host = "127.0.0.1", *port = "11300", *directory = NULL, *room = getenv("TMPDIR");
    char made[300], data[400];
    size_t job_bytes_max = 65535;
    for (int flag; (flag = getopt(count, arguments, "l:p:b:z:V")) != -1;)
        if (flag == 'l')
            host = optarg;
        else if (flag == 'p')
            port = optarg;
        else if (flag == 'b')
            directory = optarg;
        else if (flag == 'z')
            job_bytes_max = strtoul(optarg, NULL, 10);
        else if (flag != 'V')
            return 2;
    int fd = server_socket(host, port);
    if (fd < 0) {
        perror(host);
        return 1;
    }
    snprintf(made, sizeof made, "%s/beanstalkd-XXXXXX", room ? room : "/tmp");
    if (!directory && !(directory = mkdtemp(made)))
        return 1;
    snprintf(data, sizeof data, "%s/tarry", directory);
    server_become(fd, data, job_bytes_max, false);
}
