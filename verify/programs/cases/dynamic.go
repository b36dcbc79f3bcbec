// A server that sends one answer back: Go with C in it, so that it is linked dynamically and
// externally. The C part says by libc how many calls it has made.
package main

// #include <unistd.h>
// static int one_call(void) { return getppid() > 0; }
import "C"

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println("listening", C.one_call())
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		count, err := io.Copy(connection, connection)
		fmt.Println(count, err)
		connection.Close()
	}
}
