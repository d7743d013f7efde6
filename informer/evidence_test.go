package informer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// podState is what the server has under a key.
type podState struct {
	version     string
	exists, bad bool
}

// evidence is one history of a key in a mirror that applies batches late. Some versions cannot be transformed,
// or are refused by the form.
type evidence struct {
	rand   *rand.Rand
	srv    *simtest.Server[*corev1.Pod]
	inf    *podInformer
	late   atomic.Int64
	states []podState
	own    int // the state that the last write of this process left
	trace  []string
}

func (e *evidence) put(own bool) {
	bad := e.rand.IntN(2) == 0
	set := map[string]string{"app": "web"}
	if bad {
		set["bad"] = "1"
	}
	pod := e.srv.Set("shop/a", labeled(set))
	e.states = append(e.states, podState{pod.ResourceVersion, true, bad})
	if own {
		e.own = len(e.states) - 1
		if err := e.inf.Writes().Wrote(pod); err != nil {
			e.trace = append(e.trace, err.Error())
		}
	}
	e.trace = append(e.trace, fmt.Sprintf("put, own %t: %+v", own, e.states[len(e.states)-1]))
}

func (e *evidence) delete(own bool) {
	if !e.states[len(e.states)-1].exists {
		return
	}
	b := e.inf.Writes().Begin(keyA)
	was := e.srv.Delete("shop/a")
	e.states = append(e.states, podState{version: was.ResourceVersion})
	if own {
		e.own = len(e.states) - 1
		b.Deleting(object.Deletion{UID: was.UID})
	}
	e.trace = append(e.trace, fmt.Sprintf("delete, own %t: %s", own, was.ResourceVersion))
}

func (e *evidence) step() {
	switch n := e.rand.IntN(12); {
	case n < 4:
		e.put(n < 2)
	case n < 6:
		e.delete(n == 4)
	case n == 6:
		e.srv.Expire()
		e.trace = append(e.trace, "expire")
	case n == 7:
		e.late.Store(int64(e.rand.IntN(2)) * int64(e.rand.IntN(int(time.Second))))
	default:
		simtest.Advance(time.Duration(e.rand.IntN(int(time.Second / 2))))
	}
	if e.rand.IntN(2) == 0 {
		synctest.Wait()
	}
}

// read returns what is wrong with what a reader sees.
func (e *evidence) read(from int) error {
	obj, ok, pending, err := e.inf.Writes().Peek(keyA)
	var bad *informer.QuarantinedError
	if pending || err != nil && !errors.As(err, &bad) {
		return err
	}
	e.trace = append(e.trace, fmt.Sprintf("read: %t, %v", ok, err))
	if slices.ContainsFunc(e.states[from:], func(s podState) bool {
		switch {
		case err != nil:
			return s.bad
		case ok:
			return s.exists && !s.bad && s.version == obj.ResourceVersion
		}
		return !s.exists
	}) {
		return nil
	}
	return fmt.Errorf("read %t, %v; since its last write the server had %+v", ok, err, e.states[from:])
}

func (e *evidence) run() error {
	for range 40 {
		e.step()
		if err := e.read(e.own); err != nil {
			return err
		}
	}
	e.late.Store(0)
	simtest.Advance(time.Minute)
	e.srv.Bookmark()
	simtest.Advance(10 * time.Minute)
	last := e.states[len(e.states)-1]
	if n := e.inf.Status().PendingWrites; n > 0 && !last.bad {
		return fmt.Errorf("%d writes are tracked", n)
	}
	from := len(e.states) - 1
	for last.bad && from > e.own { // what it keeps of that life
		from--
	}
	return e.read(from)
}

// What a reader gets to know about its writes belongs to the state that it reads: batches are applied late, good
// versions follow bad ones and deletions follow both, and lists replace events.
func TestR02_WhatIsUnreadableBelongsToTheStateThatIsRead(t *testing.T) {
	for seed := range uint64(soak.Rounds(300)) {
		synctest.Test(t, func(t *testing.T) {
			e := &evidence{rand: rand.New(rand.NewPCG(seed, 28)), srv: simtest.Pods("shop/a"), states: []podState{{"101", true, false}}}
			opts := []podOptions{{Transform: picky}, {Form: choosy(), Transform: keep}, {Transform: picky, Namespaces: []string{"shop", "bank"}}}[seed%3]
			opts.Around = func(b *object.Batch[*corev1.Pod], apply func(*object.Batch[*corev1.Pod])) {
				if d := e.late.Load(); d > 0 {
					<-time.After(time.Duration(d))
				}
				apply(b)
			}
			e.inf = newInformer(t, e.srv, opts)
			start(t, e.inf)
			synctest.Wait()
			if err := e.run(); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(e.trace, "\n"))
			}
		})
	}
}

// A good version is on its way to the mirror. Until it arrives, the reader is still told of the bad one.
func TestR02_AReaderIsNotShownAnAbsenceBeforeTheGoodVersionArrives(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		gate := make(chan struct{})
		close(gate)
		inf := newInformer(t, srv.Source(via), podOptions{Transform: picky, Around: func(b *object.Batch[*corev1.Pod], apply func(*object.Batch[*corev1.Pod])) {
			<-gate
			apply(b)
		}})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, srv.Set("shop/a", labeled(map[string]string{"bad": "1"})))
		synctest.Wait()
		gate = make(chan struct{})
		good := srv.Set("shop/a", labeled(nil))
		synctest.Wait()
		if _, ok, err := read(t, inf, keyA); ok || !errors.Is(err, errBad) {
			t.Errorf("before: %v, %v", ok, err)
		}
		close(gate)
		synctest.Wait()
		if pod, ok, err := read(t, inf, keyA); !ok || err != nil || pod.ResourceVersion != good.ResourceVersion {
			t.Errorf("after: %v, %v, %v", pod, ok, err)
		}
	})
}

// hiding is a source that cannot read the keys of objects with the label "hidden".
type hiding struct {
	reflector.Source[*corev1.Pod]
}

func hide(item *podItem) {
	if p := item.Object; p != nil && p.Labels["hidden"] != "" {
		*item = podItem{Version: item.Version, Err: errBad}
	}
}

func (h hiding) List(ctx context.Context, opts object.ListOptions, in *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
	return h.Source.List(ctx, opts, in, func(item podItem) error {
		hide(&item)
		return sink(item)
	})
}

func (h hiding) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[*corev1.Pod]) (object.Stream[*corev1.Pod], error) {
	s, err := h.Source.Watch(ctx, opts, in)
	return hidingStream{s}, err
}

type hidingStream struct{ object.Stream[*corev1.Pod] }

func (s hidingStream) Next() ([]object.Event[*corev1.Pod], error) {
	events, err := s.Stream.Next()
	for i := range events {
		hide(&events[i].Item)
	}
	return events, err
}

func TestR02_AWrittenObjectWhoseKeyCannotBeReadIsReported(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"shop", "bank"}} {
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := simtest.Pods("shop/b", "bank/a")
				inf := newInformer(t, hiding{srv}, podOptions{Namespaces: namespaces})
				start(t, inf)
				synctest.Wait()
				hidden := labeled(map[string]string{"hidden": "1"})
				for range 2 {
					for _, key := range []string{"shop/a", "shop/b"} { // created, updated
						wrote(t, inf, srv.Set(key, hidden))
						synctest.Wait()
						if _, ok, err := read(t, inf, object.RawKey(key)); ok || !errors.Is(err, errBad) {
							t.Errorf("%s: %v, %v", key, ok, err)
						}
					}
					// Another one, whose deletion the mirror has seen, is not in doubt.
					wrote(t, inf, srv.Set("bank/a"))
					srv.Delete("bank/a")
					synctest.Wait()
					if _, ok, err := read(t, inf, object.RawKey("bank/a")); ok || err != nil {
						t.Errorf("bank/a: %v, %v", ok, err)
					}
					srv.Expire() // then a list says so
					simtest.Advance(time.Minute)
				}
				for _, key := range []string{"shop/a", "shop/b"} {
					srv.Set(key, labeled(nil))
				}
				srv.Expire()
				simtest.Advance(time.Minute)
				for _, key := range []string{"shop/a", "shop/b"} {
					if _, ok, err := read(t, inf, object.RawKey(key)); !ok || err != nil {
						t.Errorf("%s, after a good version: %v, %v", key, ok, err)
					}
				}
				simtest.Want(t, "tracked", inf.Status().PendingWrites, 0)
			})
		})
	}
}

// The removal of an object in the history before a restored backup says nothing about a write after it.
func TestR01_ARemovalBeforeARewindSettlesNoLaterWrite(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		held := srv.Set("shop/a", labeled(map[string]string{"app": "web"})) // 101
		inf := newInformer(t, srv.Source(via), podOptions{Selection: object.Selection{Labels: "app=web"}})
		start(t, inf)
		synctest.Wait()
		inf.Writes().Begin(keyA)
		srv.SetVersion(200)
		srv.Delete("shop/a") // at 201
		synctest.Wait()
		srv.Load(150) // a backup in which the label was removed
		srv.Expire()
		simtest.Advance(time.Minute)
		wrote(t, inf, answer(held, "160")) // which restores it
		if _, ok, err := read(t, inf, keyA); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the mirror has the write: %v, %v", ok, err)
		}
	})
}

// A write may reach the server after a backup was restored and before the mirror finds out.
func TestR01_AWriteDuringARewindIsWaitedForInTheNewHistory(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		srv.SetVersion(200)
		srv.Set("shop/a") // 201
		synctest.Wait()
		rewind(srv, 150)
		begun := inf.Writes().Begin(keyA)
		srv.Expire()
		simtest.Advance(time.Minute)
		srv.Hold(true)
		pod := srv.Set("shop/a") // 151
		if err := begun.Wrote(pod); err != nil {
			t.Fatal(err)
		}
		if !inf.Writes().Pending(keyA) {
			t.Error("the state before the write is read")
		}
		srv.Hold(false)
		synctest.Wait()
		if now, ok, err := read(t, inf, keyA); !ok || err != nil || now.ResourceVersion != pod.ResourceVersion {
			t.Errorf("%v, %v, %v", now, ok, err)
		}
	})
}

// A list may be asked for while a namespace that was added has not been listed yet.
func TestR01_ARelistDuringTheFirstListOfANamespaceIsOfTheLatestState(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"shop"}})
		start(t, inf)
		synctest.Wait()
		srv.Refuse("bank", forbidden())
		if err := inf.SetNamespaces("shop", "bank"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		srv.Requests()
		inf.Relist(errors.New("asked for"))
		srv.Refuse("bank", nil)
		if err := inf.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, req := range srv.Requests() {
			if strings.HasPrefix(req, `LIST "0"`) {
				t.Errorf("requested %s, which may be of any age", req)
			}
		}
	})
}

// The history may be rewound again before the mirror, which is behind both times, has caught up.
func TestR01_WritesOfAHistoryThatIsRewoundTwiceAreNotWaitedFor(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		srv.Hold(true)
		pod := newPod("shop/b", "u")
		wrote(t, inf, answer(pod, "160"))
		done := make(chan error, 1)
		go func() { done <- inf.Writes().Wait(t.Context(), object.RawKey("shop/b")) }()
		simtest.Advance(time.Second)
		wrote(t, inf, answer(pod, "170")) // one note of both
		srv.SetVersion(150)
		simtest.Advance(time.Minute)
		srv.Load(130, srv.Objects()...)
		simtest.Advance(time.Minute)
		srv.Hold(false)
		srv.Bookmark()
		simtest.Advance(10 * time.Minute)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the first write is waited for")
		}
		simtest.Want(t, "tracked", inf.Status().PendingWrites, 0)
	})
}

// What the server answers after it has answered another write is later, whatever the versions say.
func TestR01_AWriteAfterARewindIsLaterThanTheOneBefore(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		inf := newInformer(t, srv.Source(via), podOptions{Selection: object.Selection{Labels: "app=web"}})
		start(t, inf)
		synctest.Wait()
		for i, first := range []*corev1.Pod{newPod("shop/a", "u1"), newPod("shop/a", "u2")} {
			wrote(t, inf, answer(first, strconv.Itoa(160+i))) // not selected
			begun := inf.Writes().Begin(keyA)
			next := answer(newPod("shop/a", "u2"), strconv.Itoa(120+i), labeled(map[string]string{"app": "web"}))
			if err := begun.Wrote(next); err != nil {
				t.Fatal(err)
			}
			if !inf.Writes().Pending(keyA) {
				t.Errorf("%d: the state before the last write is read", i)
			}
		}
	})
}
