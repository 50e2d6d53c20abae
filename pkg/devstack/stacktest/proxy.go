package stacktest

import (
	"bytes"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// Proxy returns the URL of a way to a server on which relay decides what
// passes. It is called for each connection, and both ends are closed once it
// returns.
func Proxy(tb testing.TB, to string, relay func(client, server net.Conn)) string {
	tb.Helper()
	u, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	ctx := tb.Context()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ln.Close() })
	address := u.Host
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
				if err != nil {
					return
				}
				defer server.Close()
				relay(client, server)
			}()
		}
	}()
	u.Host = ln.Addr().String()
	return u.String()
}

// LoseAnswer returns the URL of a way to Redis on which the answer to the first
// command that contains word is lost, and all that follows on its connection.
// breaks is whether the connection ends there; else it stays, and is silent.
func LoseAnswer(tb testing.TB, redisURL, word string, breaks bool) string {
	tb.Helper()
	var once atomic.Bool
	return Proxy(tb, redisURL, func(client, server net.Conn) {
		var lost atomic.Bool
		go func() {
			defer client.Close()
			pass(server, client, func([]byte) bool { return !lost.Load() }, breaks)
		}()
		pass(client, server, func(b []byte) bool {
			if bytes.Contains(b, []byte(word)) && once.CompareAndSwap(false, true) {
				lost.Store(true)
			}
			return true
		}, false)
	})
}

// pass hands on what may pass, until one side ends, or at the first that may
// not if that breaks the connection.
func pass(from, to net.Conn, may func([]byte) bool, breaks bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !may(buf[:n]) {
			if breaks {
				return
			}
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
