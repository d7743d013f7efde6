package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// childArg is the only argument of a process that is one side.
const childArg = "child"

// The sides.
const (
	sideClientGo = "client-go"
	sideTarn     = "Tarn"
	sideCompact  = "Tarn, compact"

	sideRuntime      = "controller-runtime"
	sideUnder        = "NewCache"
	sideUnderDecoded = "NewCache, decoded"
)

// sides are those of a run. The first is what the others are compared with.
func (s settings) sides() []string {
	if s.managers {
		return []string{sideRuntime, sideUnder, sideUnderDecoded}
	}
	return []string{sideClientGo, sideTarn, sideCompact}
}

// task is what a child is started with.
type task struct {
	Side string
	// Objects is how many there are.
	Objects int
	// Pods are those of them that are pods.
	Pods int
	// Kinds is how many kinds a manager is to have controllers of; 0 for mirrors of pods and widgets.
	Kinds         int
	Host          string
	CA, Cert, Key []byte
}

// command is a step that a child is to measure.
type command struct {
	Step string
	// Until is what the markers say when it is over.
	Until string
}

// side is a pair of mirrors, of pods and of widgets, with handlers that call the audience.
type side interface {
	// run runs the mirrors until the context is done.
	run(ctx context.Context) error
	// relisted waits until both have listed again and called their handlers.
	relisted(ctx context.Context, before int64) error
	// visit calls f with every object.
	visit(f func(metav1.Object))
}

// audience is what handlers call.
type audience struct {
	calls atomic.Int64
	// seen has a step for each marker that was seen.
	seen chan string
}

func newAudience() *audience { return &audience{seen: make(chan string, 64)} }

func (a *audience) hear(obj metav1.Object) {
	a.calls.Add(1)
	if obj.GetName() == marker {
		select {
		case a.seen <- obj.GetAnnotations()[stepKey]:
		default: // not waited for: a relist delivers it again
		}
	}
}

// until waits until both markers have said something.
func (a *audience) until(ctx context.Context, step string) error {
	for missing := 2; missing > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-a.seen:
			if s == step {
				missing--
			}
		}
	}
	return nil
}

// child is the process of one side: it mirrors, and measures on
// request, until its standard input ends.
func child(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(bufio.NewReader(stdin)), json.NewEncoder(stdout)
	var t task
	if err := in.Decode(&t); err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // client-go logs watches that were broken on purpose
	saboteur := &saboteur{}
	config := &rest.Config{
		Host: t.Host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: t.CA, CertData: t.Cert, KeyData: t.Key},
		WrapTransport: saboteur.wrap,
	}
	if t.Kinds > 0 {
		r, err := manage(ctx, t, config)
		return errors.Join(err, out.Encode(r))
	}
	heard := newAudience()
	m := begin(0, 0)
	s, err := newSide(ctx, t, config, heard)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- s.run(ctx) }()
	err = eventually(ctx, "all objects", func() error {
		if n := heard.calls.Load(); n < int64(t.Objects) {
			return fmt.Errorf("%d of %d", n, t.Objects)
		}
		return nil
	})
	var reads []read
	for step := "sync"; err == nil; {
		r := m.end(step, heard.calls.Load(), saboteur.counted())
		r.Reads = reads
		s.visit(r.Held.add)
		if err = out.Encode(r); err != nil {
			break
		}
		var c command
		if err = in.Decode(&c); errors.Is(err, io.EOF) {
			err = nil
			break
		} else if err != nil {
			break
		}
		step = c.Step
		m = begin(heard.calls.Load(), saboteur.counted())
		switch step {
		case "relist":
			saboteur.expire()
			err = s.relisted(ctx, m.events)
		case "reads":
			reads, err = s.(*managed).reads(ctx)
		default:
			err = heard.until(ctx, c.Until)
		}
	}
	stop()
	return errors.Join(err, <-ran)
}

func newSide(ctx context.Context, t task, config *rest.Config, heard *audience) (side, error) {
	switch t.Side {
	case sideClientGo:
		return newClientGo(config, heard)
	case sideTarn, sideCompact:
		return newTarn(config, heard, t.Side == sideCompact)
	}
	return newManaged(ctx, t, config, heard)
}

// fingerprint sums up which objects there are, and at which versions, in no order.
type fingerprint struct {
	Objects int    `json:"objects"`
	Sum     uint64 `json:"sum"`
}

func (f *fingerprint) add(obj metav1.Object) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, obj.GetNamespace()+"/"+obj.GetName()+"@"+obj.GetResourceVersion())
	f.Objects++
	f.Sum += h.Sum64()
}
