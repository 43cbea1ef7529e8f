package tarry.v1;

/** The service for Dubbo, which calls methods by these names. */
public interface Queue {
    PushResult Push(PushRequest request);

    TakeResponse Take(TakeRequest request);

    AnswerResponse Ack(AnswerRequest request);
}
