// The calls of the service by the generated client of gRPC C++: the argument is the address. Prints what it saw, one line each.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <memory>

#include "tarry/v1/queue.grpc.pb.h"

using namespace tarry::v1;

namespace {

// A call's context with a deadline.
struct Within : grpc::ClientContext {
    explicit Within(int seconds)
    {
        set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
    }
};

void Push(Queue::Stub &stub, const std::string &id)
{
    PushRequest push;
    PushResult result;
    push.set_topic("mail");
    push.set_id(id);
    push.set_body(std::string("x\0", 2));
    (*push.mutable_meta())["k"] = "v";
    Within context(20);
    if (!stub.Push(&context, push, &result).ok())
        std::cout << "push failed\n";
}

TakeResponse Take(Queue::Stub &stub, const std::string &topic, int seconds)
{
    TakeRequest take;
    TakeResponse taken;
    take.add_topics(topic);
    Within context(seconds);
    grpc::Status status = stub.Take(&context, take, &taken);
    if (!status.ok())
        std::cout << "take failed: " << status.error_message() << "\n";
    return taken;
}

grpc::Status Ack(Queue::Stub &stub, const std::string &lease)
{
    AnswerRequest answer;
    AnswerResponse answered;
    answer.set_lease(lease);
    Within context(20);
    return stub.Ack(&context, answer, &answered);
}

void Work(Queue::Stub &stub)
{
    Within context(20);
    auto stream = stub.Work(&context);
    WorkRequest request;
    WorkResponse response;
    request.mutable_hello()->add_topics("mail");
    request.mutable_hello()->set_credit(5);
    request.mutable_hello()->set_confirm(true);
    stream->Write(request);
    while (stream->Read(&response)) {
        if (!response.has_job()) {
            std::cout << "work answered\n";
            continue;
        }
        std::cout << "work job " << response.job().id() << "\n";
        request.mutable_answer()->set_verb(VERB_ACK);
        request.mutable_answer()->mutable_answer()->set_lease(response.job().lease());
        stream->Write(request);
        stream->WritesDone();
    }
    std::cout << (stream->Finish().ok() ? "end\n" : "error\n");
}

} // namespace

int main(int, char **words)
{
    auto stub = Queue::NewStub(grpc::CreateChannel(words[1], grpc::InsecureChannelCredentials()));
    Push(*stub, "a");
    Push(*stub, "b");
    TakeResponse taken = Take(*stub, "mail", 20);
    const Job &job = taken.jobs(0);
    std::cout << "taken " << job.id() << " " << job.body().size() << " " << job.meta().at("k") << "\n";
    Ack(*stub, job.lease());
    if (Ack(*stub, job.lease()).error_code() == grpc::StatusCode::FAILED_PRECONDITION)
        std::cout << "error FAILED_PRECONDITION\n";
    std::cout << "empty " << Take(*stub, "none", 2).jobs_size() << "\n";
    Work(*stub);
}
