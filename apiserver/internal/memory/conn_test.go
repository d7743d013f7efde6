package memory

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

// pair returns both ends of a connection.
func pair(t testing.TB) (client, server net.Conn, stop func()) {
	t.Helper()
	l := NewListener()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	client, err := l.Dial(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	return client, server, func() {
		client.Close()
		server.Close()
		l.Close()
	}
}

func TestMemoryConnsPassNettest(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2, stop = pair(t)
		return c1, c2, stop, nil
	})
}

func TestAWriterBlocksDurablyOnASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, stop := pair(t)
		defer stop()
		wrote := make(chan int, 1)
		go func() {
			n, _ := server.Write(make([]byte, 3*pipeSize))
			wrote <- n
		}()
		synctest.Wait() // returns only if the writer is durably blocked
		select {
		case n := <-wrote:
			t.Fatalf("wrote %d bytes without a reader", n)
		default:
		}
		if n, err := io.ReadFull(client, make([]byte, 3*pipeSize)); err != nil || n != <-wrote {
			t.Errorf("read %d: %v", n, err)
		}
		if err := client.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestDataSentBeforeCloseIsReadable(t *testing.T) {
	client, server, stop := pair(t)
	defer stop()
	if _, err := server.Write([]byte("goodbye")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if raw, err := io.ReadAll(client); err != nil || string(raw) != "goodbye" {
		t.Errorf("%q %v", raw, err)
	}
	if _, err := client.Write([]byte("x")); err == nil {
		t.Error("write to a closed connection succeeded")
	}
}
