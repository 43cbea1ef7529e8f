// Calls of the generated client of google.golang.org/grpc, as adapter.py describes: arguments are the address and repeats.json.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	tarryv1 "client/tarry/v1"
)

var lock sync.Mutex

func show(number string, code codes.Code, rest string) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Printf("%s\t%d\t%s\n", number, int32(code), rest)
}

func text(message proto.Message) string {
	made, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	check(err)
	return string(made)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The status of an error, in base64.
func details(err error) string {
	made, failure := proto.Marshal(status.Convert(err).Proto())
	check(failure)
	return base64.StdEncoding.EncodeToString(made)
}

func unary(stub tarryv1.QueueClient, number, method string, timeout time.Duration, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	call := reflect.ValueOf(stub).MethodByName(method)
	request := reflect.New(call.Type().In(1).Elem())
	check(protojson.Unmarshal([]byte(body), request.Interface().(proto.Message)))
	found := call.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	if err, failed := found[1].Interface().(error); failed {
		show(number, status.Code(err), details(err))
		return
	}
	show(number, codes.OK, text(found[0].Interface().(proto.Message)))
}

func receive(number string, stream tarryv1.Queue_WorkClient) {
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			show(number, codes.OK, "")
			return
		}
		if err != nil {
			show(number, status.Code(err), details(err))
			return
		}
		lock.Lock()
		fmt.Printf("%s\t-1\t%s\n", number, text(message))
		lock.Unlock()
	}
}

func main() {
	repeats, err := os.ReadFile(os.Args[2])
	check(err)
	pause := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(string(repeats)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: 20 * time.Second}))
	check(err)
	stub, streams := tarryv1.NewQueueClient(conn), map[string]tarryv1.Queue_WorkClient{}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 4)
		number, method, body := words[0], words[1], words[3]
		ms, err := strconv.Atoi(words[2])
		check(err)
		if method != "Work" {
			go unary(stub, number, method, time.Duration(ms)*time.Millisecond, body)
			continue
		}
		stream, isOpen := streams[number]
		if !isOpen {
			if stream, err = stub.Work(context.Background()); err != nil {
				show(number, status.Code(err), "")
				continue
			}
			streams[number] = stream
			go receive(number, stream)
		}
		if body == "" {
			check(stream.CloseSend())
			continue
		}
		message := &tarryv1.WorkRequest{}
		check(protojson.Unmarshal([]byte(body), message))
		_ = stream.Send(message) // Recv has the error
	}
}
