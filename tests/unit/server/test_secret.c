#include "server/secret.h"

#include "redis/url.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text, size_t len)
{
    strcpy(path, "/tmp/tarry-secret-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

CLAIM(a_password_is_the_first_line_of_its_file)
{
    static const struct {
        const char *content, *secret; /* NULL: refused */
        const char *sentence;
    } rows[] = {
        {"sesame\n", "sesame", "as an editor leaves it"},
        {"sesame", "sesame", "without an end of line"},
        {"sesame\r\nmore\n", "sesame", "from another system, with more behind it"},
        {"open sesame\n", "open sesame", "a blank is part of it"},
        {"", NULL, "an empty file"},
        {"\n", NULL, "an empty line"},
        {"123456789012345\n", NULL, "too long"},
        {"1234567890123456789", NULL, "much too long"},
        {"12345678901234\n", "12345678901234", "just short enough"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char secret[16], error[256] = "";
        write_file(rows[i].content, strlen(rows[i].content));
        int result = secret_read(path, secret, sizeof secret, error, sizeof error);
        unlink(path);
        CASE_HOLDS(rows[i].sentence, (result == 0) == (rows[i].secret != NULL));
        if (rows[i].secret)
            assert_string_equal(secret, rows[i].secret);
        else
            assert_non_null(strstr(error, path));
    }
}

CLAIM(a_missing_file_is_named)
{
    char secret[16], error[256];
    assert_int_equal(secret_read("/nonexistent/x", secret, 16, error, sizeof error), -ENOENT);
    assert_string_equal(error,
                        "cannot read the password in '/nonexistent/x', No such file or directory");
}

CLAIM(a_file_that_others_may_read_is_refused)
{
    static const struct {
        mode_t mode;
        bool is_taken;
    } rows[] = {{0600, true},  {0400, true},  {0640, false}, {0644, false},
                {0604, false}, {0620, false}, {0440, false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char secret[16], error[256] = "";
        write_file("sesame\n", 7);
        assert_int_equal(chmod(path, rows[i].mode), 0);
        int result = secret_read(path, secret, sizeof secret, error, sizeof error);
        unlink(path);
        assert_int_equal(result, rows[i].is_taken ? 0 : -EPERM);
        assert_true(rows[i].is_taken || strstr(error, "others may read the password in"));
    }
}

/* systemd hands out credentials with mode 0400, and an ACL that adds the unit's user, so fstat returns 0440. */
CLAIM(a_file_readable_by_this_user_through_an_acl_is_accepted)
{
    static const char group_may_not[] = "\2\0\0\0\1\0\4\0\377\377\377\377\2\0\4\0\0\0\0\0"
                                        "\4\0\0\0\377\377\377\377\20\0\4\0\377\377\377\377"
                                        "\40\0\0\0\377\377\377\377";
    char secret[16], error[256] = "";
    struct stat info;
    write_file("sesame\n", 7);
    int fd = open(path, O_RDONLY);
    if (fsetxattr(fd, "system.posix_acl_access", group_may_not, sizeof group_may_not - 1, 0) ==
        0) { /* a file system without lists has nothing to show */
        assert_int_equal(fstat(fd, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0440);
    }
    close(fd);
    assert_int_equal(secret_read(path, secret, sizeof secret, error, sizeof error), 0);
    unlink(path);
}

CLAIM(the_url_gets_the_password_and_reads_back_the_same)
{
    static const char *const urls[] = {
        "redis://host",
        "redis://tarry:@host:6380/3",
        "redis+unix:///run/redis.sock",
        "redis-cluster://a:1,b",
        "redis-sentinel://me:@a,b/master/2",
        "redis://u:@[::1]:7?prefix=x",
    };
    static const char secret[] = "p@ss:w/or%d? #\xc3\xa9";
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct redis_url without, with;
        char url[1024], error[256] = "", plain[1024];
        CASE_HOLDS(urls[i], redis_url_parse(urls[i], &without, error, sizeof error));
        assert_int_equal(secret_into_url(urls[i], secret, url, sizeof url, error, sizeof error), 0);
        CASE_HOLDS(urls[i], redis_url_parse(url, &with, error, sizeof error));
        assert_string_equal(with.password, secret);
        assert_string_equal(with.user, without.user);
        redis_url_emit(&with, plain, sizeof plain);
        assert_null(strstr(plain, "ss"));
        assert_string_equal(with.hosts[0].host, without.hosts[0].host);
    }
}

CLAIM(two_passwords_are_refused)
{
    char url[1024], error[256];
    assert_int_equal(secret_into_url("redis://:a@host", "b", url, sizeof url, error, 256), -EINVAL);
    assert_string_equal(error,
                        "a password in --store and another in --redis-password-file, remove one");
    assert_int_equal(secret_into_url("redis://a:@host", "b", url, 12, error, 256), -EINVAL);
    assert_string_equal(error, "'--store' and its password together are too long");
}

CLAIMS_MAIN(NULL, NULL)
