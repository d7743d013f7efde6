package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAControlPlaneSurvivesItsFaults(t *testing.T) {
	p := Start(t, Options{})
	ctx := t.Context()
	clients, err := kubernetes.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	maps := clients.CoreV1().ConfigMaps("default")
	create := func(name string) {
		t.Helper()
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(name string, want bool) {
		t.Helper()
		_, err := maps.Get(ctx, name, metav1.GetOptions{})
		if want && err != nil || !want && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v; want it to exist: %t", name, err, want)
		}
	}

	// What was acknowledged survives a crash of either part.
	for _, part := range []*Part{p.APIServer, p.Etcd} {
		create("before-" + part.Name())
		if err := part.Kill(); err != nil {
			t.Fatal(err)
		}
		if part.State() != Stopped {
			t.Errorf("%s is %s after it was killed", part.Name(), part.State())
		}
		if err := part.Pause(); !errors.Is(err, ErrState) {
			t.Errorf("paused while stopped: %v", err)
		}
		if err := part.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := part.Start(ctx); !errors.Is(err, ErrState) {
			t.Errorf("started twice: %v", err)
		}
		if err := p.APIServer.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		exists("before-"+part.Name(), true)
	}

	// Start waits for a port that another process holds for a moment.
	if err := p.Etcd.Kill(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", strings.TrimPrefix(p.etcdURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer taken.Close()
		for tick := time.NewTicker(10 * time.Millisecond); !strings.Contains(p.Etcd.Log(30), portTaken) && ctx.Err() == nil; {
			<-tick.C
		}
	}()
	if err := p.Etcd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.APIServer.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}

	// A paused part does not answer.
	if err := p.Etcd.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	if _, err := p.Revision(short); err == nil {
		t.Error("etcd answered while it was paused")
	}
	cancel()
	if err := p.Etcd.Resume(); err != nil {
		t.Fatal(err)
	}

	// A snapshot is a way back.
	snapshot, err := p.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create("after-snapshot")
	revision, err := p.Revision(ctx)
	if err != nil || revision <= snapshot.Revision {
		t.Fatalf("revision %d after one of %d, %v", revision, snapshot.Revision, err)
	}
	if err := p.Restore(ctx, snapshot); err != nil {
		t.Fatal(err)
	}
	exists("after-snapshot", false)
	exists("before-etcd", true)

	if err := snapshot.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := p.Restore(ctx, snapshot); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a snapshot that was removed was restored: %v", err)
	}
	exists("before-etcd", true) // and nothing was harmed

	if err := p.Compact(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Compact(ctx, 1<<40); err != nil {
		t.Errorf("compacting nothing: %v", err)
	}
	if err := p.APIServer.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := p.APIServer.Stop(ctx); err != nil {
		t.Errorf("stopped twice: %v", err)
	}
}

func TestAPartThatCannotStartShowsItsLog(t *testing.T) {
	_, err := New(t.Context(), Options{EtcdArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "etcd ended before it was ready") || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("got %v", err)
	}
	_, err = New(t.Context(), Options{Binaries: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without binaries: %v", err)
	}
}

// orphanArg makes the test's binary start a plane, tell its processes and wait.
const orphanArg = "orphan"

func TestNothingIsLeftWhenTheTestIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphan$", "-test.timeout=10m", orphanArg)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	var dir string
	for sc := bufio.NewScanner(stdout); len(pids) < 2 && sc.Scan(); {
		if fields := strings.Fields(sc.Text()); len(fields) == 4 && fields[0] == "started" {
			dir = fields[1]
			for _, s := range fields[2:] {
				pid, err := strconv.Atoi(s)
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(pids) != 2 {
		t.Fatal("it did not start")
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for alive(pid) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("process %d is still there", pid)
			}
		}
	}
}

// alive reports whether a process runs; one that is dead and not waited for does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// TestOrphan is the process that TestNothingIsLeftWhenTheTestIsKilled kills.
func TestOrphan(t *testing.T) {
	if os.Args[len(os.Args)-1] != orphanArg {
		t.Skip("part of another test")
	}
	p := Start(t, Options{})
	fmt.Printf("started %s %d %d\n", p.dir, p.Etcd.proc.Pid, p.APIServer.proc.Pid)
	select {} // until it is killed
}
