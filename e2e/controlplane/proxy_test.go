package controlplane

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo returns the address of a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

type line struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *Proxy) line {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return line{conn, bufio.NewReader(conn)}
}

func (l line) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(l, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (l line) hear(t *testing.T, want string) {
	t.Helper()
	if got, err := l.r.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// nothing checks that nothing comes for a moment.
func (l line) nothing(t *testing.T) {
	t.Helper()
	if err := l.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := l.r.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v; want nothing", got, err)
	}
	if err := l.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

func TestACutConnectionIsReset(t *testing.T) {
	p := StartProxy(t, echo(t))
	a, b := dial(t, p), dial(t, p)
	for _, l := range []line{a, b} {
		l.say(t, "hello")
		l.hear(t, "hello")
	}
	if n := p.Cut(); n != 2 {
		t.Errorf("cut %d connections; want 2", n)
	}
	if _, err := a.r.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v; want a reset", err)
	}
	c := dial(t, p)
	c.say(t, "again")
	c.hear(t, "again")
	if got := p.Counts(); got != (ProxyCounts{Accepted: 3, Cut: 2, Open: 1, Received: 18}) {
		t.Errorf("counts %+v", got)
	}
}

func TestAStalledConnectionStaysOpenAndLosesNothing(t *testing.T) {
	p := StartProxy(t, echo(t))
	a := dial(t, p)
	a.say(t, "1")
	a.hear(t, "1")
	p.Stall(true)
	a.say(t, "2")
	a.nothing(t)
	p.Stall(false)
	a.hear(t, "2")
}

func TestHeldConnectionsDeliverLateAndInOrder(t *testing.T) {
	p := StartProxy(t, echo(t))
	old := dial(t, p)
	old.say(t, "0")
	old.hear(t, "0")
	release := p.Hold()
	old.say(t, "1")
	old.say(t, "2")
	young := dial(t, p)
	young.say(t, "3")
	young.hear(t, "3")
	old.nothing(t)
	release()
	old.hear(t, "1")
	old.hear(t, "2")
}

func TestHeldConnectionsOvertakeEachOther(t *testing.T) {
	p := StartProxy(t, echo(t))
	both := []line{dial(t, p), dial(t, p)}
	for _, l := range both {
		l.say(t, "0")
		l.hear(t, "0")
	}
	release := p.HoldEach()
	if len(release) != 2 || len(p.HoldEach()) != 0 {
		t.Fatalf("%d connections are held; want both, once", len(release))
	}
	both[0].say(t, "1")
	both[1].say(t, "2")
	for _, l := range both {
		l.nothing(t)
	}
	release[0]()
	// Which it was is up to the map; the other one is held still.
	heard := make(chan int, 2)
	for i, l := range both {
		go func() {
			if _, err := l.r.ReadString('\n'); err != nil {
				t.Error(err)
			}
			heard <- i
		}()
	}
	other := both[1-<-heard]
	select {
	case <-heard:
		t.Error("both were let go")
	default:
	}
	release[1]()
	<-heard
	other.say(t, "3")
	other.hear(t, "3")
}

func TestAnAnswerIsCutOffAfterSoManyBytes(t *testing.T) {
	p := StartProxy(t, echo(t))
	p.CutAfter(4)
	a := dial(t, p)
	a.say(t, "hello")
	if got, err := a.r.ReadString('\n'); got != "hell" && got != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("heard %q, %v; want no more than hell, and a reset", got, err)
	}
	p.CutAfter(-1)
	b := dial(t, p)
	b.say(t, "hello")
	b.hear(t, "hello")
}

func TestRefusedConnectionsAreTakenAgainOnTheSamePort(t *testing.T) {
	p := StartProxy(t, echo(t))
	before := dial(t, p)
	before.say(t, "1")
	before.hear(t, "1")
	if err := p.Refuse(true); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", p.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v; want a refusal", err)
	}
	before.say(t, "2")
	before.hear(t, "2")
	if err := p.Refuse(false); err != nil {
		t.Fatal(err)
	}
	after := dial(t, p)
	after.say(t, "3")
	after.hear(t, "3")
}

func TestASlowConnectionTakesItsTime(t *testing.T) {
	p := StartProxy(t, echo(t))
	p.Slow(1000, 0)
	a := dial(t, p)
	began := time.Now()
	text := strings.Repeat("x", 199)
	a.say(t, text)
	a.hear(t, text)
	// 200 bytes each way, at a thousand a second.
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("took %s", took)
	}
	p.Slow(0, 0)
	a.say(t, text)
	a.hear(t, text)
}

func TestTheProxyEndsWithItsContext(t *testing.T) {
	p, err := NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	a := dial(t, p)
	a.say(t, "1")
	a.hear(t, "1")
	p.Stall(true) // nor does a stalled connection hold it up
	a.say(t, "2")
	if err := p.Refuse(true); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := p.Refuse(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestConfigGoesThroughTheProxy(t *testing.T) {
	p := StartProxy(t, echo(t))
	before := &rest.Config{Host: "https://127.0.0.1:1/prefix"}
	if got, want := p.Config(before).Host, "https://"+p.Address()+"/prefix"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	if before.Host != "https://127.0.0.1:1/prefix" {
		t.Error("the original was changed")
	}
}
