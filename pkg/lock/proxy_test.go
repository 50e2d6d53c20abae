package lock_test

import (
	"bytes"
	"net"
	"net/url"
	"testing"
)

// breakingProxy returns the URL of a way to Redis on which the first answer to
// a command that contains word is lost, and the connection with it.
func breakingProxy(t *testing.T, redisURL, word string) string {
	t.Helper()
	u, err := url.Parse(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	once := make(chan struct{}, 1) // holds the right to lose one answer
	once <- struct{}{}
	server := u.Host
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go relay(client, server, word, once)
		}
	}()
	u.Host = ln.Addr().String()
	return u.String()
}

func relay(client net.Conn, server, word string, once <-chan struct{}) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	lost := make(chan struct{})
	go answers(client, upstream, lost)
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte(word)) {
			select {
			case <-once:
				close(lost)
			default:
			}
		}
		upstream.Write(buf[:n])
	}
}

// answers relays until one is lost.
func answers(client, upstream net.Conn, lost <-chan struct{}) {
	defer client.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := upstream.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-lost:
			return
		default:
			client.Write(buf[:n])
		}
	}
}
