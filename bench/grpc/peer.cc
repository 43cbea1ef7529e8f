// The peer of bench/grpc/run: an asynchronous server of gRPC C++ that answers Push with a constant and stores nothing.
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>

#include "tarry/v1/queue.grpc.pb.h"

namespace {

using tarry::v1::PushRequest;
using tarry::v1::PushResult;
using Service = tarry::v1::Queue::WithAsyncMethod_Push<tarry::v1::Queue::Service>;

// A call from the wait for it to its answer.
class Call {
public:
    Call(Service *service, grpc::ServerCompletionQueue *queue)
        : service_(service), queue_(queue), responder_(&context_)
    {
        service_->RequestPush(&context_, &request_, &responder_, queue_, queue_, this);
    }

    void Proceed()
    {
        if (is_answered_) {
            delete this;
            return;
        }
        new Call(service_, queue_);
        PushResult result;
        result.set_topic("orders");
        result.set_id("01J00000000000000000000000");
        result.set_result(tarry::v1::RESULT_CREATED);
        result.set_state(tarry::v1::STATE_READY);
        is_answered_ = true;
        responder_.Finish(result, grpc::Status::OK, this);
    }

private:
    Service *service_;
    grpc::ServerCompletionQueue *queue_;
    grpc::ServerContext context_;
    PushRequest request_;
    grpc::ServerAsyncResponseWriter<PushResult> responder_;
    bool is_answered_ = false;
};

} // namespace

int main(int count, char **words)
{
    if (count != 2) {
        std::cerr << "usage: peer ADDRESS\n";
        return 2;
    }
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(words[1], grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    for (int i = 0; i < 64; i++)
        new Call(&service, queue.get());
    void *tag;
    bool is_good;
    while (queue->Next(&tag, &is_good)) {
        auto *call = static_cast<Call *>(tag);
        if (is_good)
            call->Proceed();
        else
            delete call;
    }
}
