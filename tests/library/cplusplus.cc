// A C++ program against tarry.h, which it includes twice: pushes of a thread of its own wake a take.
#include <tarry.h>
#include <tarry.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

int main()
{
    tarry *queue = nullptr;
    if (tarry_open(nullptr, &queue, nullptr, 0) != TARRY_OK)
        return 1;
    std::thread pusher([queue] {
        struct tarry_push push = TARRY_PUSH_INIT;
        const std::string body = "hello";
        push.topic = "greetings";
        push.body = body.data();
        push.body_bytes = body.size();
        push.delay_ms = 20;
        tarry_push(queue, &push, 1, nullptr);
    });
    const char *topics[] = {"greetings"};
    struct tarry_take take = TARRY_TAKE_INIT;
    take.topics = topics;
    take.topic_count = 1;
    tarry_job *job = nullptr;
    size_t n = 0;
    const int code = tarry_pop(queue, &take, -1, &job, &n);
    pusher.join();
    if (code != TARRY_OK || n != 1 || std::strlen(tarry_job_id(job)) != 26)
        return 1;
    tarry_job_free(job);
    std::puts("good");
    return tarry_close(queue);
}
