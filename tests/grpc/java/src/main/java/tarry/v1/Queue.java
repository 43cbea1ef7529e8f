package tarry.v1;

/** The service for Dubbo, which calls methods by these names. */
public interface Queue {
    PushResult Push(PushRequest request);

    PushManyResponse PushMany(PushManyRequest request);

    PushBatchResponse PushBatch(PushBatchRequest request);

    ChangeResponse Cancel(ChangeRequest request);

    Job Get(GetRequest request);

    TakeResponse Take(TakeRequest request);

    AnswerResponse Ack(AnswerRequest request);

    AnswerResponse Nack(AnswerRequest request);

    AnswerResponse Extend(AnswerRequest request);

    AnswerResponse Return(AnswerRequest request);
}
