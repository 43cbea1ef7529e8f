/*
 * client: one connection to a server, kept open from call to call.
 *
 * A call is prepared (target, headers, body), made, and its answer read. What goes wrong is
 * explained on standard error here, once, and comes back as the exit code of cli.h: unreachable,
 * refused (the server's own words), not found. One thread. The answer is the client's and good
 * until the next call.
 */
#ifndef TARRY_CLI_CLIENT_H
#define TARRY_CLI_CLIENT_H

#include "cli/cli.h"
#include "cli/url.h"

#include <curl/curl.h>
#include <jansson.h>

enum { CLIENT_PROBLEM_BYTES = 2048 };

struct client {
    CURL *curl;
    const char *base;                /* "http://127.0.0.1:8279" */
    const char *socket_path;         /* of "unix:PATH"; NULL: it is reached by an address */
    char shown[CLI_URL_SHOWN_BYTES]; /* the same without a password, for people */
    struct buffer target, full_url, answer;
    struct curl_slist *headers;
    bool is_prepared; /* they hold those of each request */
    json_t *json;     /* the answer, where it is JSON */
    long status;
    bool wants_raw;
    bool is_silent; /* what goes wrong is for the caller to say, from `problem` */
    char error[CURL_ERROR_SIZE];
    char problem[CLIENT_PROBLEM_BYTES]; /* what the last call failed by; "" where it did not */
};

/* False where out of memory, explained. `base` must outlive it. */
bool client_open(struct client *client, const char *base);
void client_close(struct client *client);

/* A new call: returns the target for the cli_url_add_… functions, holding "/v1". */
struct buffer *client_begin(struct client *client);
/* "Name: value" */
void client_add_header(struct client *client, const char *header);

/* The answer is to be a job's body as it is, with the rest in headers; status 204 is CLI_NOTHING
 * then, without a word. */
void client_want_raw(struct client *client);
/* A header of the answer; empty where there is none. Good until the next call. */
struct slice client_header(const struct client *client, const char *name);

/* Makes the call. `body` NULL: none; else it must live until the end of the call. `wait_ms`: how
 * long the server may take on top of the usual. CLI_OK, or an exit code, explained. */
int client_call(struct client *client, const char *method, const struct slice *body,
                int64_t wait_ms);

/* The two halves of client_call, for a caller that runs the transfer (client->curl) itself. */
bool client_prepare(struct client *client, const char *method, const struct slice *body,
                    int64_t wait_ms);
int client_finish(struct client *client, CURLcode code);

/* Whether the answer has what was asked for: CLI_OK, or explained that it does not. */
int client_expect(struct client *client, const char *member);

/* The answer as it came, and a line end. */
void client_print_json(const struct client *client);

#endif
