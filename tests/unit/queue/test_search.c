/* Searches over a queue that lists, and answers on request. */
#include "queue/search.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOBS_MAX = 12000, PAGE_JOBS_MAX = 1000 };

struct one {
    char id[24], error[24];
    uint32_t body_bytes, result_bytes;
    bool is_gone;
};

struct fake {
    struct queue queue;
    struct one jobs[JOBS_MAX];
    size_t job_count;
    bool has_call;
    struct queue_list list;
    struct queue_reply_to to;
    char cursor[24];
    size_t lists, longest_page;
    enum queue_status fails;
    bool is_wanted;
    void (*before_page)(struct fake *fake); /* something changes meanwhile */
    size_t found;
    char ids[JOBS_MAX][24];
    int done;
    uint64_t seen;
    enum queue_status status;
    char next[24]; /* its cursor */
};

static void fake_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    assert_int_equal(command->kind, COMMAND_LIST);
    assert_false(fake->has_call);
    assert_true(slice_is(command->list.topic, "t"));
    fake->has_call = true;
    fake->list = command->list;
    fake->to = to;
    (void)snprintf(fake->cursor, sizeof fake->cursor, "%.*s", (int)command->list.cursor.len,
                   command->list.cursor.len ? command->list.cursor.at : "");
}

static const struct queue_ops fake_ops = {.submit = fake_submit};

/* Places are indices: as with due and sequence, removed jobs do not change the others' places. */
static void answer_page(struct fake *fake)
{
    static struct queue_job jobs[PAGE_JOBS_MAX];
    static struct queue_end ends[PAGE_JOBS_MAX];
    static const char body[1 << 20];
    char cursor[24];
    size_t count = 0, i = (size_t)atoi(fake->cursor);
    uint64_t bytes = 0;
    fake->has_call = false;
    fake->lists++;
    if (fake->before_page)
        fake->before_page(fake);
    for (; i < fake->job_count && count < fake->list.limit && bytes < 4 << 20; i++) {
        const struct one *one = &fake->jobs[i];
        if (one->is_gone)
            continue;
        ends[count] = (struct queue_end){.result = slice_make(body, one->result_bytes)};
        jobs[count].end = one->result_bytes ? &ends[count] : NULL;
        struct job *job = &jobs[count++].job;
        *job = (struct job){.id = slice_of(one->id), .error = slice_of(one->error)};
        if (fake->list.with_body)
            job->body = slice_make(body, one->body_bytes);
        bytes += job->body.len + one->result_bytes;
    }
    if (count > fake->longest_page)
        fake->longest_page = count;
    (void)snprintf(cursor, sizeof cursor, "%zu", i);
    struct queue_reply reply = {.status = fake->fails, .jobs = jobs, .job_count = count};
    if (i < fake->job_count)
        reply.cursor = slice_of(cursor);
    fake->to.done(fake->to.owner, fake->to.tag, &reply);
}

static void on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct fake *fake = owner;
    assert_int_equal(tag, 7);
    (void)snprintf(fake->ids[fake->found++], sizeof fake->ids[0], "%.*s", (int)job->job.id.len,
                   job->job.id.at);
}

static bool is_wanted(void *owner, uint64_t tag)
{
    assert_int_equal(tag, 7);
    return ((struct fake *)owner)->is_wanted;
}

static void on_done(void *owner, uint64_t tag, const struct search_result *result)
{
    struct fake *fake = owner;
    assert_int_equal(tag, 7);
    fake->done++;
    fake->seen = result->seen;
    fake->status = result->status;
    (void)snprintf(fake->next, sizeof fake->next, "%.*s", (int)result->cursor.len,
                   result->cursor.len ? result->cursor.at : "");
}

static struct fake *fake_new(size_t count)
{
    struct fake *fake = calloc(1, sizeof *fake);
    fake->queue.ops = &fake_ops;
    fake->is_wanted = true;
    fake->job_count = count;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(fake->jobs[i].id, sizeof fake->jobs[i].id, "%s%zu", i % 10 ? "a-" : "b-", i);
        (void)snprintf(fake->jobs[i].error, sizeof fake->jobs[i].error, "%s",
                       i % 2 ? "timed out" : "");
    }
    return fake;
}

static void search(struct fake *fake, struct search_order order)
{
    char topic[] = "t", prefix[32] = "";
    struct slice given = order.filter.id_prefix;
    struct search_listener listener = {
        .found = on_found, .wanted = is_wanted, .done = on_done, .owner = fake, .tag = 7};
    if (given.len)
        memcpy(prefix, given.at, given.len);
    order.filter.id_prefix = slice_make(prefix, given.len);
    order.topic = slice_of(topic);
    fake->done = 0;
    assert_true(search_start(&fake->queue, &order, &listener));
    topic[0] = prefix[0] = 'x'; /* the order is gone with the call */
    assert_int_equal(fake->done, 0);
    while (fake->has_call)
        answer_page(fake);
    assert_int_equal(fake->done, 1);
}

/* ---- claims ---- */

CLAIM(finds_matching_jobs_and_ends_without_a_cursor)
{
    struct fake *fake = fake_new(1200);
    search(fake, (struct search_order){.filter.id_prefix = slice_of("b-")});
    assert_int_equal(fake->status, QUEUE_OK);
    assert_int_equal(fake->found, 120);
    assert_int_equal(fake->seen, 1200);
    assert_string_equal(fake->next, "");
    for (size_t i = 0; i < fake->found; i++)
        assert_int_equal(atoi(fake->ids[i] + 2), 10 * i);
    free(fake);
}

/* However many are asked for at a time, each comes once. */
CLAIM(pages_are_complete_and_without_duplicates)
{
    static const uint32_t limits[] = {1, 2, 7, 49, 50, 51, 120, 1000};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct fake *fake = fake_new(1200);
        size_t before = 0;
        do {
            search(fake, (struct search_order){.filter.id_prefix = slice_of("b-"),
                                               .limit = limits[i],
                                               .cursor = slice_of(fake->next)});
            assert_true(fake->found - before <= limits[i]);
            before = fake->found;
        } while (fake->next[0]);
        assert_int_equal(fake->found, 120);
        for (size_t k = 0; k < fake->found; k++)
            assert_int_equal(atoi(fake->ids[k] + 2), 10 * k);
        free(fake);
    }
}

CLAIM(one_call_reads_a_bounded_number_of_jobs)
{
    struct fake *fake = fake_new(JOBS_MAX);
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"), .limit = 10});
    assert_int_equal(fake->found, 0);
    assert_int_equal(fake->seen, SEARCH_SEEN_MAX);
    assert_string_equal(fake->next, "10000");
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"),
                                       .limit = 10,
                                       .cursor = slice_of(fake->next)});
    assert_int_equal(fake->seen, JOBS_MAX - SEARCH_SEEN_MAX);
    assert_string_equal(fake->next, "");
    free(fake);
}

/* A store pays for each page, however few jobs it has: the embedded store walks over the jobs in memory. */
CLAIM(pages_grow_while_few_jobs_match_unless_bodies_are_read)
{
    struct fake *fake = fake_new(JOBS_MAX);
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"), .limit = 10});
    assert_int_equal(fake->seen, SEARCH_SEEN_MAX);
    assert_true(fake->lists <= 14 && fake->longest_page == QUEUE_LIST_MAX);
    free(fake);
    fake = fake_new(JOBS_MAX);
    search(fake, (struct search_order){.filter.id_prefix = slice_of("b-"), .limit = 10});
    assert_true(fake->lists <= 2 && fake->longest_page == 100);
    free(fake);
    fake = fake_new(JOBS_MAX);
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"), .with_body = true});
    assert_int_equal(fake->longest_page, 100);
    free(fake);
}

CLAIM(bodies_are_looked_at_up_to_so_many_bytes)
{
    struct fake *fake = fake_new(100);
    for (size_t i = 0; i < fake->job_count; i++)
        fake->jobs[i].body_bytes = 1 << 20;
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"), .with_body = true});
    assert_int_equal(fake->seen, SEARCH_BYTES_MAX >> 20);
    assert_string_equal(fake->next, "8");
    free(fake);
}

CLAIM(results_are_read_up_to_the_same_number_of_bytes)
{
    struct fake *fake = fake_new(100);
    for (size_t i = 0; i < fake->job_count; i++)
        fake->jobs[i].result_bytes = 1 << 20;
    search(fake, (struct search_order){.filter.id_prefix = slice_of("c-"), .with_body = true});
    assert_int_equal(fake->seen, SEARCH_BYTES_MAX >> 20);
    free(fake);
}

/* The jobs that match begin to match only when the page is looked at again. */
static void more_match_the_second_time(struct fake *fake)
{
    if (fake->lists == 2)
        for (size_t i = 0; i < fake->job_count; i++)
            fake->jobs[i].id[0] = 'b';
}

CLAIM(never_more_than_are_wanted_whatever_changes_meanwhile)
{
    struct fake *fake = fake_new(300);
    fake->before_page = more_match_the_second_time;
    search(fake, (struct search_order){.filter.id_prefix = slice_of("b-"), .limit = 3});
    assert_int_equal(fake->found, 3);
    assert_string_equal(fake->next, "3");
    free(fake);
}

CLAIM(ends_with_its_cursor_when_cancelled)
{
    struct fake *fake = fake_new(1200);
    fake->is_wanted = false;
    search(fake, (struct search_order){.filter.error = slice_of("timed")});
    assert_int_equal(fake->lists, 1);
    assert_int_equal(fake->found, 50);
    assert_string_equal(fake->next, "100");
    free(fake);
}

CLAIM(a_rejection_is_returned)
{
    struct fake *fake = fake_new(10);
    fake->fails = QUEUE_NOT_FOUND;
    search(fake, (struct search_order){.filter.error = slice_of("timed")});
    assert_int_equal(fake->status, QUEUE_NOT_FOUND);
    assert_int_equal(fake->found, 0);
    free(fake);
}

/* ---- the filter ---- */

CLAIM(a_filter_goes_by_all_that_it_names)
{
    static const struct {
        const char *sentence;
        struct queue_filter filter;
        bool matches;
    } rows[] = {
#define TEXT(T) {.at = T, .len = sizeof T - 1}
        {"any job", {.died_after_ms = 0}, true},
        {"its whole id", {.id_prefix = TEXT("order-7")}, true},
        {"longer than its id", {.id_prefix = TEXT("order-77")}, false},
        {"not its beginning", {.id_prefix = TEXT("rder")}, false},
        {"in another case", {.id_prefix = TEXT("Order")}, false},
        {"in the error", {.error = TEXT("refused <b>")}, true},
        {"not in the error", {.error = TEXT("refused <i>")}, false},
        {"a meta", {.meta_name = TEXT("kind"), .meta_value = TEXT("mail")}, true},
        {"another value", {.meta_name = TEXT("kind"), .meta_value = TEXT("mai")}, false},
        {"any value", {.meta_name = TEXT("kind")}, true},
        {"an empty value", {.meta_name = TEXT("flag")}, true},
        {"no such name", {.meta_name = TEXT("kin")}, false},
        {"a value is no name", {.meta_name = TEXT("mail")}, false},
        {"all of them",
         {.id_prefix = TEXT("o"), .error = TEXT("r"), .meta_name = TEXT("flag")},
         true},
        {"all but one",
         {.id_prefix = TEXT("o"), .error = TEXT("z"), .meta_name = TEXT("flag")},
         false},
#undef TEXT
    };
    static const char meta[] = "kind\0mail\0flag\0\0";
    struct job job = {.id = slice_of("order-7"),
                      .error = slice_of("connection refused <b>"),
                      .meta = slice_make(meta, sizeof meta - 1)};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence,
                   queue_filter_matches(&rows[i].filter, &job) == rows[i].matches);
}

CLAIMS_MAIN(NULL, NULL)
