// A message's life through the AWS SDK for Go v2; tests/e2e/support/sqs_clients.py checks its output and the server.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var (
	ctx    = context.Background()
	client *sqs.Client
	queue  *string
)

// must is the answer of a call that has to succeed.
func must[T any](answer T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return answer
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		log.Panicf("found %v, expected %v", found, expected)
	}
}

func makeQueue(name string, attributes map[string]string) *string {
	return must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})).QueueUrl
}

func receive(from *string, most int32) []types.Message {
	return must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: from, MaxNumberOfMessages: most, WaitTimeSeconds: 20,
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})).Messages
}

func remove(from *string, message types.Message) {
	must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: from, ReceiptHandle: message.ReceiptHandle}))
}

func release(message types.Message, seconds int32) {
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: seconds}))
}

func delayed() float64 {
	began := time.Now()
	must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("in two seconds"), DelaySeconds: 2}))
	soon := receive(queue, 10)[0]
	waited := time.Since(began).Seconds()
	equal(*soon.Body, "in two seconds")
	remove(queue, soon)
	return waited
}

func deadLetter(dead *string) []string {
	attributes := map[string]types.MessageAttributeValue{
		"Customer":  {DataType: aws.String("String"), StringValue: aws.String("Grüße")},
		"total.eur": {DataType: aws.String("Number.cents"), StringValue: aws.String("1250")},
		"raw":       {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 254, 255}},
	}
	same := func(found map[string]types.MessageAttributeValue) {
		equal(len(found), len(attributes))
		for name, one := range attributes {
			equal(*found[name].DataType, *one.DataType)
			equal(aws.ToString(found[name].StringValue), aws.ToString(one.StringValue))
			equal(bytes.Equal(found[name].BinaryValue, one.BinaryValue), true)
		}
	}
	sent := must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("bad order"), MessageAttributes: attributes}))
	md5s := []string{*sent.MD5OfMessageAttributes}
	for attempt := 1; attempt <= 2; attempt++ {
		bad := receive(queue, 1)[0]
		equal(*bad.MessageId, *sent.MessageId)
		equal(bad.Attributes["ApproximateReceiveCount"], strconv.Itoa(attempt))
		same(bad.MessageAttributes)
		md5s = append(md5s, *bad.MD5OfMessageAttributes)
		release(bad, 60)
		release(bad, 0)
	}
	buried := receive(dead, 1)[0]
	equal(*buried.MessageId, *sent.MessageId)
	same(buried.MessageAttributes)
	remove(dead, buried)
	return append(md5s, *buried.MD5OfMessageAttributes)
}

func batch() {
	var entries []types.SendMessageBatchRequestEntry
	var bodies, seen []string
	for at := range 10 {
		bodies = append(bodies, fmt.Sprintf("batch %d", at))
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("entry-", at)), MessageBody: &bodies[at]})
	}
	equal(len(must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})).Successful), 10)
	for len(seen) < 10 {
		var kept []types.ChangeMessageVisibilityBatchRequestEntry
		var done []types.DeleteMessageBatchRequestEntry
		for _, message := range receive(queue, 10) {
			seen = append(seen, *message.Body)
			kept = append(kept, types.ChangeMessageVisibilityBatchRequestEntry{Id: message.MessageId, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 100})
			done = append(done, types.DeleteMessageBatchRequestEntry{Id: message.MessageId, ReceiptHandle: message.ReceiptHandle})
		}
		equal(len(must(client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: queue, Entries: kept})).Successful), len(kept))
		equal(len(must(client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: done})).Successful), len(done))
	}
	slices.Sort(seen)
	equal(seen, bodies)
}

func main() {
	name := os.Args[1]
	client = sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx)))
	dead := makeQueue(name+"-dead", nil)
	arn := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: dead, AttributeNames: []types.QueueAttributeName{"QueueArn"}})).Attributes["QueueArn"]
	queue = makeQueue(name, map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, arn)})
	day := must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("in a day"), DelaySeconds: 86400}))
	waited := delayed()
	md5s := deadLetter(dead)
	batch()
	_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(name + "-absent")})
	var absent *types.QueueDoesNotExist
	equal(errors.As(err, &absent), true)
	counts := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: []types.QueueAttributeName{"All"}})).Attributes
	var pending []int
	for _, state := range []string{"", "NotVisible", "Delayed"} {
		pending = append(pending, must(strconv.Atoi(counts["ApproximateNumberOfMessages"+state])))
	}
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{"day": *day.MessageId, "waited": waited, "md5s": md5s, "pending": pending}))
}
