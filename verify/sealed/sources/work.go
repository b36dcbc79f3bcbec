// A static program in Go: its runtime makes system calls without any libc.
//
// Prints what it saw; nothing printed depends on time or process numbers.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func files() {
	must(os.MkdirAll("g/a/b", 0o755))
	for i := 0; i < 100; i++ {
		must(os.WriteFile(fmt.Sprintf("g/a/f%d", i), make([]byte, i), 0o644))
	}
	var count, size int64
	must(filepath.Walk("g", func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			count, size = count+1, size+info.Size()
		}
		return err
	}))
	fmt.Println("files", count, "bytes", size)
	file, err := os.OpenFile("g/data", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(err)
	_, err = file.WriteAt([]byte("hello"), 100)
	must(err)
	part := make([]byte, 5)
	_, err = file.ReadAt(part, 100)
	must(err)
	must(file.Truncate(300))
	info, _ := file.Stat()
	fmt.Println(string(part), info.Size(), info.Mode())
	must(file.Close())
	must(os.Symlink("data", "g/link"))
	must(os.Rename("g/data", "g/moved"))
	target, _ := os.Readlink("g/link")
	_, err = os.Stat("g/link")
	fmt.Println(target, os.IsNotExist(err))
	_, err = os.ReadFile("/no/such/file")
	fmt.Println(err)
	fmt.Println(os.Remove("g"))
	must(os.RemoveAll("g"))
	temporary, err := os.CreateTemp(".", "t*")
	must(err)
	must(os.Remove(temporary.Name()))
}

func routines() {
	var all sync.WaitGroup
	sums := make(chan int, 64)
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			name := fmt.Sprintf("gr%d", i)
			must(os.WriteFile(name, make([]byte, i*10), 0o600))
			content, err := os.ReadFile(name)
			must(err)
			must(os.Remove(name))
			runtime.Gosched()
			sums <- len(content)
		}(i)
	}
	all.Wait()
	close(sums)
	sum := 0
	for one := range sums {
		sum += one
	}
	runtime.GC()
	fmt.Println("routines", sum)
}

func children() {
	out, err := exec.Command("sh", "-c", "echo from the shell; exit 5").Output()
	fmt.Printf("%q %v\n", out, err)
	cat := exec.Command("cat")
	in, _ := cat.StdinPipe()
	answer, _ := cat.StdoutPipe()
	must(cat.Start())
	fmt.Fprintln(in, "through cat")
	in.Close()
	line, _ := bufio.NewReader(answer).ReadString('\n')
	fmt.Printf("%q %v\n", line, cat.Wait())
	_, err = exec.LookPath("nosuchprogram")
	fmt.Println(err)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGUSR1)
	must(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	fmt.Println(<-heard)
	read, write, _ := os.Pipe()
	go func() { fmt.Fprint(write, "piped"); write.Close() }()
	content, _ := io.ReadAll(read)
	fmt.Println(string(content))
}

// A server of pages and its clients, echoes over TCP and a unix socket, and what nobody answers.
func network() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	page := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.URL.Path)) }
	go http.Serve(listener, http.HandlerFunc(page))
	lengths := make(chan int, 16)
	for i := 0; i < 16; i++ {
		go func(i int) {
			answer, err := http.Get(fmt.Sprintf("http://%s/%0*d", listener.Addr(), i, 0))
			must(err)
			defer answer.Body.Close()
			var length int
			_, err = fmt.Fscan(answer.Body, &length)
			must(err)
			lengths <- length
		}(i)
	}
	sum := 0
	for i := 0; i < 16; i++ {
		sum += <-lengths
	}
	fmt.Println("pages", sum)
	echo("tcp", "127.0.0.1:0")
	echo("unix", "go.sock")
	must(listener.Close())
	_, err = net.DialTimeout("tcp", "127.0.0.1:1", 10*time.Second)
	fmt.Println(err)
}

func echo(kind, address string) {
	listener, err := net.Listen(kind, address)
	must(err)
	defer listener.Close()
	go func() {
		end, err := listener.Accept()
		must(err)
		io.Copy(end, end)
		end.Close()
	}()
	end, err := net.Dial(kind, listener.Addr().String())
	must(err)
	go func() {
		end.Write(make([]byte, 1<<20))
		end.(interface{ CloseWrite() error }).CloseWrite()
	}()
	content, err := io.ReadAll(end)
	fmt.Println(kind, len(content), err)
	must(end.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err = end.Read(make([]byte, 1))
	fmt.Println(os.IsTimeout(err))
}

func main() {
	files()
	routines()
	children()
	network()
	fmt.Println(os.Args[1:])
	os.Exit(23)
}
