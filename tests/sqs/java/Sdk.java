import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.*;

/**
 * A message's life through the AWS SDK for Java v2, which checks the MD5 of bodies and attributes by itself; tests/e2e/support/sqs_clients.py checks its output
 * and the server.
 */
class Sdk {
    static final SqsClient SQS = SqsClient.builder().httpClient(UrlConnectionHttpClient.create()).build();
    static String url;

    static void equal(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static List<Message> receive(String from, int most) {
        return SQS.receiveMessage(r -> r.queueUrl(from).maxNumberOfMessages(most).waitTimeSeconds(20).messageAttributeNames("All")
                .messageSystemAttributeNames(MessageSystemAttributeName.ALL)).messages();
    }

    static void remove(String from, Message message) {
        SQS.deleteMessage(r -> r.queueUrl(from).receiptHandle(message.receiptHandle()));
    }

    static void release(Message message, int seconds) {
        SQS.changeMessageVisibility(r -> r.queueUrl(url).receiptHandle(message.receiptHandle()).visibilityTimeout(seconds));
    }

    static double delayed() {
        long began = System.nanoTime();
        SQS.sendMessage(r -> r.queueUrl(url).messageBody("in two seconds").delaySeconds(2));
        Message soon = receive(url, 10).get(0);
        double waited = (System.nanoTime() - began) / 1e9;
        equal(soon.body(), "in two seconds");
        remove(url, soon);
        return waited;
    }

    static List<String> deadLetter(String dead) {
        Map<String, MessageAttributeValue> attributes = Map.of(
                "Customer", MessageAttributeValue.builder().dataType("String").stringValue("Grüße").build(),
                "total.eur", MessageAttributeValue.builder().dataType("Number.cents").stringValue("1250").build(),
                "raw", MessageAttributeValue.builder().dataType("Binary").binaryValue(SdkBytes.fromByteArray(new byte[] {0, 1, -2, -1})).build());
        SendMessageResponse sent = SQS.sendMessage(r -> r.queueUrl(url).messageBody("bad order").messageAttributes(attributes));
        List<String> md5s = new ArrayList<>(List.of(sent.md5OfMessageAttributes()));
        for (String attempt : List.of("1", "2", "dead")) {
            boolean buried = attempt.equals("dead");
            Message bad = receive(buried ? dead : url, 1).get(0);
            equal(bad.messageId(), sent.messageId());
            equal(bad.messageAttributes(), attributes);
            md5s.add(bad.md5OfMessageAttributes());
            if (buried) {
                remove(dead, bad);
                return md5s;
            }
            equal(bad.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT), attempt);
            release(bad, 60);
            release(bad, 0);
        }
        throw new AssertionError("never buried");
    }

    static void batch() {
        List<String> bodies = IntStream.range(0, 10).mapToObj(at -> "batch " + at).collect(Collectors.toList());
        equal(SQS.sendMessageBatch(r -> r.queueUrl(url).entries(bodies.stream()
                .map(body -> SendMessageBatchRequestEntry.builder().id(body.replace(' ', '-')).messageBody(body).build()).toList())).successful().size(), 10);
        List<String> seen = new ArrayList<>();
        while (seen.size() < 10) {
            List<Message> messages = receive(url, 10);
            equal(SQS.changeMessageVisibilityBatch(r -> r.queueUrl(url).entries(messages.stream().map(message -> ChangeMessageVisibilityBatchRequestEntry.builder()
                    .id(message.messageId()).receiptHandle(message.receiptHandle()).visibilityTimeout(100).build()).toList())).successful().size(), messages.size());
            equal(SQS.deleteMessageBatch(r -> r.queueUrl(url).entries(messages.stream().map(message -> DeleteMessageBatchRequestEntry.builder()
                    .id(message.messageId()).receiptHandle(message.receiptHandle()).build()).toList())).successful().size(), messages.size());
            messages.forEach(message -> seen.add(message.body()));
        }
        equal(seen.stream().sorted().toList(), bodies);
    }

    public static void main(String[] arguments) {
        String name = arguments[0];
        String dead = SQS.createQueue(r -> r.queueName(name + "-dead")).queueUrl();
        String arn = SQS.getQueueAttributes(r -> r.queueUrl(dead).attributeNames(QueueAttributeName.QUEUE_ARN)).attributes().get(QueueAttributeName.QUEUE_ARN);
        url = SQS.createQueue(r -> r.queueName(name).attributes(Map.of(QueueAttributeName.REDRIVE_POLICY,
                "{\"deadLetterTargetArn\":\"" + arn + "\",\"maxReceiveCount\":\"2\"}"))).queueUrl();
        String day = SQS.sendMessage(r -> r.queueUrl(url).messageBody("in a day").delaySeconds(86400)).messageId();
        double waited = delayed();
        List<String> md5s = deadLetter(dead);
        batch();
        try {
            SQS.getQueueUrl(r -> r.queueName(name + "-absent"));
            throw new AssertionError("an absent queue was found");
        } catch (QueueDoesNotExistException expected) {
            equal(expected.awsErrorDetails().errorCode(), "AWS.SimpleQueueService.NonExistentQueue");
        }
        Map<QueueAttributeName, String> counts = SQS.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.ALL)).attributes();
        String pending = List.of(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES, QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE,
                QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_DELAYED).stream().map(counts::get).collect(Collectors.joining(","));
        System.out.println("{\"day\":\"" + day + "\",\"waited\":" + waited + ",\"md5s\":[\"" + String.join("\",\"", md5s) + "\"],\"pending\":[" + pending + "]}");
    }
}
