/*
 * client: a connection to a server that is kept open between calls.
 *
 * A call is prepared (target, headers, body) and made, and then its answer is read. Errors are
 * printed on standard error once and returned as an exit code of cli.h: unreachable, refused (with
 * the server's message), not found. The answer belongs to the client and is valid until the next
 * call. One thread.
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
    const char *socket_path;         /* from "unix:PATH"; NULL: reached over TCP */
    char shown[CLI_URL_SHOWN_BYTES]; /* `base` without a password, for display */
    struct buffer target, full_url, answer;
    struct curl_slist *headers;
    bool is_prepared; /* `headers` holds the headers of each request */
    json_t *json;     /* the answer, if it is JSON */
    long status;
    bool wants_raw;
    bool is_silent; /* errors are not printed; the caller reports `problem` */
    char error[CURL_ERROR_SIZE];
    char problem[CLIENT_PROBLEM_BYTES]; /* the error of the last call; "" on success */
};

/* Opens a client. Returns false if out of memory, after printing the error. `base` must outlive
 * the client. */
bool client_open(struct client *client, const char *base);
void client_close(struct client *client);

/* Begins a call. Returns the target for the cli_url_add_… functions, holding "/v1". */
struct buffer *client_begin(struct client *client);
/* Adds a header in the form "Name: value". */
void client_add_header(struct client *client, const char *header);

/* Requests the job's body unchanged as the answer, with the rest in headers. Status 204 is then
 * CLI_NOTHING and prints no message. */
void client_want_raw(struct client *client);
/* Returns a header of the answer, empty if absent. Valid until the next call. */
struct slice client_header(const struct client *client, const char *name);

/* Makes the call. `body` may be NULL; otherwise it must live until the end of the call.
 * `wait_ms` is the time the server may take in addition to the usual timeout. Returns CLI_OK or
 * an exit code; errors are printed. */
int client_call(struct client *client, const char *method, const struct slice *body,
                int64_t wait_ms);

/* Provide the two halves of client_call for a caller that runs the transfer (client->curl)
 * itself. */
bool client_prepare(struct client *client, const char *method, const struct slice *body,
                    int64_t wait_ms);
int client_finish(struct client *client, CURLcode code);

/* Looks up the subject of the call, for a change that depends on it. Returns whether the call was made; *is_absent: the
 * answer was 404. client_finish, with *code, reports any other answer. */
bool client_look(struct client *client, CURLcode *code, bool *is_absent);

/* Returns CLI_OK if the answer has `member`, else an exit code after printing an error. */
int client_expect(struct client *client, const char *member);

/* Makes `answer` the answer of the client, which owns it from now on, for a command of several calls.
 * Returns an exit code; NULL is out of memory. */
int client_set_answer(struct client *client, json_t *answer);

/* Prints the answer as received, and a line end. */
void client_print_json(const struct client *client);

#endif
