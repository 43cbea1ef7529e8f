// Calls of the generated client of gRPC C++, as adapter.py describes: arguments are the address and repeats.json.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "tarry/v1/queue.grpc.pb.h"

using namespace tarry::v1;
using google::protobuf::Message;

namespace {

std::mutex lock;

void Show(const std::string &number, int status, const std::string &rest)
{
    std::lock_guard<std::mutex> held(lock);
    std::cout << number << "\t" << status << "\t" << rest << std::endl;
}

std::string Text(const Message &message)
{
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    std::string text;
    (void)MessageToJsonString(message, &text, options);
    return text;
}

std::string Base64(const std::string &bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t j = 0; j < 3; j++)
            three = three << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
        for (size_t j = 0; j < 4; j++)
            out += i + j > bytes.size() ? '=' : digits[three >> (18 - 6 * j) & 63];
    }
    return out;
}

void ShowEnd(const std::string &number, const grpc::Status &status)
{
    Show(number, status.error_code(), Base64(status.error_details()));
}

// A call of any method, as the generated stub makes it.
void Unary(std::shared_ptr<grpc::Channel> channel, std::string number, std::string method, int ms, std::string body)
{
    using google::protobuf::MessageLite;
    auto *described = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("tarry.v1.Queue")->FindMethodByName(method);
    auto *factory = google::protobuf::MessageFactory::generated_factory();
    std::unique_ptr<Message> request(factory->GetPrototype(described->input_type())->New());
    std::unique_ptr<Message> answer(factory->GetPrototype(described->output_type())->New());
    (void)google::protobuf::util::JsonStringToMessage(body, request.get());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
    std::string path = "/tarry.v1.Queue/" + method;
    grpc::internal::RpcMethod rpc(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC, channel);
    grpc::Status status = grpc::internal::BlockingUnaryCall<MessageLite, MessageLite>(channel.get(), rpc, &context, *request, answer.get());
    status.ok() ? Show(number, 0, Text(*answer)) : ShowEnd(number, status);
}

struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<WorkRequest, WorkResponse>> work;

    void Receive(std::string number)
    {
        WorkResponse message;
        while (work->Read(&message))
            Show(number, -1, Text(message));
        ShowEnd(number, work->Finish());
    }
};

} // namespace

int main(int, char **words)
{
    std::ifstream file(words[2]);
    std::stringstream repeats;
    repeats << file.rdbuf();
    grpc::ChannelArguments arguments;
    arguments.SetServiceConfigJSON(repeats.str());
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    auto channel = grpc::CreateCustomChannel(words[1], grpc::InsecureChannelCredentials(), arguments);
    auto stub = Queue::NewStub(channel);
    std::map<std::string, Stream> streams;
    std::string number, method, ms, body;
    while (std::getline(std::cin, number, '\t') && std::getline(std::cin, method, '\t') && std::getline(std::cin, ms, '\t') && std::getline(std::cin, body)) {
        if (method != "Work") {
            std::thread(Unary, channel, number, method, std::stoi(ms), body).detach();
            continue;
        }
        Stream &stream = streams[number];
        if (!stream.work) {
            stream.context.set_wait_for_ready(true); // the library reads sockets only while a call waits: calls that fail at once delay the next connection
            stream.work = stub->Work(&stream.context);
            std::thread(&Stream::Receive, &stream, number).detach();
        }
        WorkRequest message;
        if (body.empty())
            stream.work->WritesDone();
        else if (google::protobuf::util::JsonStringToMessage(body, &message).ok())
            stream.work->Write(message);
    }
    std::_Exit(0);
}
