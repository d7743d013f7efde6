package cli

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
)

func TestSlowOperationsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards said, which the goroutine of notice appends to
		var said []string
		var busy atomic.Value
		busy.Store("waiting")
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(format, args...))
		}
		end := notice(say, func() string { return busy.Load().(string) })
		step := func(d time.Duration, want string) {
			t.Helper()
			<-time.After(d) // virtual time
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(said, "|"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		step(noticeAfter-1, "")
		step(1, "tarn: still waiting")
		step(time.Minute, "tarn: still waiting")
		busy.Store("")
		step(time.Minute, "tarn: still waiting")
		busy.Store("refused")
		step(noticeAfter, "tarn: still waiting|tarn: still refused")
		end()
		end()
		busy.Store("late")
		step(time.Minute, "tarn: still waiting|tarn: still refused")
	})
}

func TestOnceReportsFailuresAsTheyHappenAndAtTheEnd(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	b := inBackground(t, "watch", "pods", "--once", "--timeout", "10m", "--kubeconfig", kubeconfig)
	b.err.until(t, " failed: server rejected ", b.ended)
	b.stop()
	_, last, _ := strings.Cut(b.err.String(), "tarn: interrupted before the initial list was complete; ")
	if b.code != exitFailed || !strings.HasPrefix(last, "pods: ") || !strings.Contains(last, " failed: server rejected ") {
		t.Errorf("exit %d: %s", b.code, b.err)
	}
}

func TestAServerThatDoesNotRespondIsNamed(t *testing.T) {
	t.Parallel() // it waits most of the time
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	kubeconfig := kubeconfigFor(t, "http://"+silent.Addr().String())
	var all []*session
	for _, name := range []string{"watch", "doctor"} {
		all = append(all, inBackground(t, name, "pods", "--kubeconfig", kubeconfig))
	}
	for _, b := range all {
		b.err.until(t, silent.Addr().String()+"\n", b.ended)
		b.stop()
	}
	stalling, stalled := serve(t, apiserver.Options{})
	if _, err := stalling.Inject(apiserver.Fault{Kind: apiserver.Stall, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"watch pods", "watch pods --once", "doctor pods"} {
		all = append(all, inBackground(t, append(strings.Fields(args), "--kubeconfig", stalled)...))
	}
	for i, b := range all[2:] {
		want := "tarn: still waiting to list pods\n"
		if i == 2 {
			want = "tarn: still examining pods\n"
		}
		b.err.until(t, want, b.ended)
		b.stop()
	}
}
