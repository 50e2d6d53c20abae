package postgres_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

// cutAtCommit returns a URL that leads to the same database through a network
// which fails when a COMMIT comes by: it loses the answer if the COMMIT is to
// arrive, and otherwise the COMMIT itself.
func cutAtCommit(tb testing.TB, to string, arrives bool) string {
	tb.Helper()
	return stacktest.Proxy(tb, to, func(client, backend net.Conn) { relay(client, backend, arrives) })
}

// relay passes messages on until one side ends, or a COMMIT comes.
func relay(client, backend net.Conn, arrives bool) {
	var committing atomic.Bool
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer client.Close()
		for buf := make([]byte, 32<<10); ; {
			n, err := backend.Read(buf)
			if err != nil || committing.Load() {
				return
			}
			client.Write(buf[:n])
		}
	}()
	for kind := 0; ; kind = 1 { // the first message has no byte that tells its kind
		message, err := readMessage(client, kind)
		if err != nil {
			return
		}
		if kind == 1 && message[0] == 'P' && bytes.Contains(message, []byte("\x00commit\x00")) {
			if !arrives {
				return
			}
			committing.Store(true)
		}
		if committing.Load() && message[0] == 'S' { // Sync: it is whole
			backend.Write(message)
			<-answered
			return
		}
		backend.Write(message)
	}
}

// holdBack returns a URL that leads to the same database, through a network that
// keeps back what has the text, until release is called. It tells held of it.
func holdBack(tb testing.TB, to, text string) (url string, held chan struct{}, release func()) {
	tb.Helper()
	held, released := make(chan struct{}, 1), make(chan struct{})
	url = stacktest.Proxy(tb, to, func(client, backend net.Conn) {
		go io.Copy(client, backend)
		for kind := 0; ; kind = 1 {
			message, err := readMessage(client, kind)
			if err != nil {
				return
			}
			if bytes.Contains(message, []byte(text)) {
				held <- struct{}{}
				<-released
			}
			backend.Write(message)
		}
	})
	return url, held, sync.OnceFunc(func() { close(released) })
}

// readMessage reads a message of the protocol, whose length stands at offset.
func readMessage(r io.Reader, offset int) ([]byte, error) {
	head := make([]byte, offset+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	message := make([]byte, offset+int(binary.BigEndian.Uint32(head[offset:])))
	copy(message, head)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}
