//go:build unix

package ingest

import "syscall"

// readNow reads what is there, without waiting.
var readNow = func(fd uintptr, p []byte) (int, error) {
	for {
		if n, err := syscall.Read(int(fd), p); err != syscall.EINTR {
			return n, err
		}
	}
}
