// A Go program that knows nothing of snapshots: goroutines write records, the collector runs.
//
// Each record is written as verify/programs/test_outside_targets.py checks it: word 0 counts up
// before and after, and in between all other words get the same stamp. Prints the address and
// then, each tenth of a second, how many rounds were made; ends with 1 if its own memory is wrong.
package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	writers = 4
	words   = 1024
)

var (
	records [writers][words]uint64
	rounds  atomic.Uint64
	kept    [64][]byte
)

func write(record *[words]uint64) {
	for stamp := uint64(1); ; stamp++ {
		atomic.StoreUint64(&record[0], 2*stamp-1)
		for at := 1; at < words; at++ {
			atomic.StoreUint64(&record[at], stamp)
		}
		atomic.StoreUint64(&record[0], 2*stamp)
		for at := 1; at < words; at++ {
			if atomic.LoadUint64(&record[at]) != stamp {
				os.Exit(1)
			}
		}
		rounds.Add(1)
	}
}

// Garbage, so that the collector stops the world between our stops.
func litter() {
	for at := 0; ; at++ {
		kept[at%len(kept)] = make([]byte, 64<<10)
		time.Sleep(100 * time.Microsecond)
	}
}

func main() {
	for at := range records {
		go write(&records[at])
	}
	go litter()
	os.Stdout.WriteString(strconv.FormatUint(uint64(uintptr(unsafe.Pointer(&records))), 10) + "\n")
	for {
		time.Sleep(100 * time.Millisecond)
		os.Stdout.WriteString(strconv.FormatUint(rounds.Load(), 10) + "\n")
	}
}
