// An HTTP server and its client, by Go's own net/http: `echo server PORT`, `echo client PORT`.
// Go makes its system calls itself, so that both are native, whether libc is linked or not.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

func main() {
	address := "127.0.0.1:" + os.Args[2]
	if os.Args[1] == "server" {
		serve(address)
		return
	}
	converse("http://" + address)
}

func serve(address string) {
	http.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	http.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	listener, err := net.Listen("tcp4", address)
	fail(err)
	go http.Serve(listener, nil)
	<-ending
}

func converse(address string) {
	fmt.Println(len(ask(address, nil)))
	hold(address)
	var waiting sync.WaitGroup
	equal := make([]bool, 40)
	for number := range equal {
		waiting.Add(1)
		go func(number int) {
			defer waiting.Done()
			body := bytes.Repeat([]byte{byte(number)}, number*20011)
			equal[number] = bytes.Equal(ask(address, body), body)
		}(number)
	}
	waiting.Wait()
	fmt.Println(equal)
}

// hold keeps the connection in use until the case has looked at it.
func hold(address string) {
	marks := os.Getenv("MARKS")
	fail(os.WriteFile(filepath.Join(marks, "connected"), nil, 0o644))
	for {
		if _, err := os.Stat(filepath.Join(marks, "looked")); err == nil {
			return
		}
		ask(address, nil)
		time.Sleep(10 * time.Millisecond)
	}
}

func ask(address string, body []byte) []byte {
	path := "/echo"
	if body == nil {
		path = "/hello"
	}
	answer, err := http.Post(address+path, "application/octet-stream", bytes.NewReader(body))
	fail(err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	fail(err)
	return content
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
