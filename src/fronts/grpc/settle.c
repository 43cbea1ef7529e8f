#include "grpc/settle.h"

bool settle_lacks(bool is_given, const char *name, struct http_fault *fault)
{
    return !is_given || http_fault_set(fault, PROBLEM_UNKNOWN_OPTION, 0,
                                       "this call has no '%s': leave it out", name);
}

bool settle_read(const Tarry__V1__AnswerRequest *answer, enum queue_verb verb,
                 struct fields *fields)
{
    bool is_again = verb == QUEUE_AGAIN, is_nack = verb == QUEUE_NACK;
    struct http_fault *fault = fields->fault;
    return settle_lacks(answer->delay && !is_again && !is_nack && verb != QUEUE_RETURN, "delay",
                        fault) &&
           settle_lacks(*answer->error && !is_nack, "error", fault) &&
           settle_lacks(answer->final && !is_nack, "final", fault) &&
           settle_lacks(answer->priority && !is_nack && !is_again, "priority", fault) &&
           settle_lacks(answer->lease_for && verb != QUEUE_EXTEND, "lease_for", fault) &&
           settle_lacks(answer->at && !is_again, "at", fault) &&
           settle_lacks(answer->body && !is_again, "body", fault) &&
           settle_lacks(answer->hold && (is_again || verb == QUEUE_EXTEND), "hold", fault) &&
           settle_lacks(answer->result && verb != QUEUE_ACK && !(is_nack && answer->final),
                        "result", fault) &&
           settle_lacks(*answer->progress && verb != QUEUE_EXTEND, "progress", fault) &&
           fields_text(fields, OPTION_PROGRESS, answer->progress) &&
           fields_duration(fields, OPTION_HOLD, answer->hold) &&
           fields_duration(fields, OPTION_DELAY, answer->delay) &&
           fields_text(fields, OPTION_ERROR, answer->error) &&
           fields_flag(fields, OPTION_FINAL, answer->final) &&
           fields_priority(fields, answer->priority) &&
           fields_duration(fields, OPTION_LEASE_FOR, answer->lease_for) &&
           fields_time(fields, OPTION_AT, answer->at);
}
