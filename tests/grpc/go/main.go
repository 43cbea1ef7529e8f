// The calls of the service by the generated client of google.golang.org/grpc: the argument is the address.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	tarryv1 "client/tarry/v1"
)

func within(duration time.Duration) context.Context {
	ctx, _ := context.WithTimeout(context.Background(), duration)
	return ctx
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	stub := tarryv1.NewQueueClient(conn)
	for _, id := range []string{"a", "b"} {
		_, err = stub.Push(within(20*time.Second), &tarryv1.PushRequest{Topic: "mail", Id: id, Body: []byte("x\x00"), Meta: map[string]string{"k": "v"}})
		check(err)
	}
	taken, err := stub.Take(within(20*time.Second), &tarryv1.TakeRequest{Topics: []string{"mail"}})
	check(err)
	job := taken.Jobs[0]
	fmt.Println("taken", job.Id, len(job.Body), job.Meta["k"])
	_, err = stub.Ack(within(20*time.Second), &tarryv1.AnswerRequest{Lease: job.Lease})
	check(err)
	_, err = stub.Ack(within(20*time.Second), &tarryv1.AnswerRequest{Lease: job.Lease})
	fmt.Println("error", status.Code(err))
	taken, err = stub.Take(within(2*time.Second), &tarryv1.TakeRequest{Topics: []string{"none"}})
	check(err)
	fmt.Println("empty", len(taken.Jobs))
	work, err := stub.Work(within(20 * time.Second))
	check(err)
	check(work.Send(&tarryv1.WorkRequest{Kind: &tarryv1.WorkRequest_Hello{Hello: &tarryv1.Hello{Topics: []string{"mail"}, Credit: 5, Confirm: true}}}))
	for {
		message, err := work.Recv()
		if err == io.EOF {
			break
		}
		check(err)
		if job := message.GetJob(); job != nil {
			fmt.Println("work job", job.Id)
			check(work.Send(&tarryv1.WorkRequest{Kind: &tarryv1.WorkRequest_Answer{Answer: &tarryv1.Answer{Verb: tarryv1.Verb_VERB_ACK, Answer: &tarryv1.AnswerRequest{Lease: job.Lease}}}}))
			check(work.CloseSend())
		} else {
			fmt.Println("work answered")
		}
	}
	fmt.Println("end")
}
