package apiserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
)

// TestTarnsInformerSurvivesRandomFaults runs an informer against a server with random
// writes and faults, and compares the two afterwards.
func TestTarnsInformerSurvivesRandomFaults(t *testing.T) {
	for seed := range uint64(soak.Rounds(6)) {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.Start(t, apiserver.Options{HTTP2: seed%2 == 0, History: 40, Seed: seed + 1})
			client := must(wire.New(s.Config(), wire.Options{}))
			defer client.CloseIdleConnections()
			source := must(stream.NewSource(wire.For(client, wire.MustOf[*corev1.Pod]()), object.Selection{}, stream.Options{}))
			inf := must(informer.New(source, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Name: "pods"}))
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- inf.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			}()
			s.Random(seed, 0.6)
			r := rand.New(rand.NewPCG(seed, 7))
			for range 300 {
				disturb(t, s, r)
				pause(t, time.Duration(r.Int64N(int64(4*time.Second))))
			}
			s.Clear()
			pause(t, 30*time.Minute) // longer than any backoff
			compare(t, s, inf)
		})
	}
}

// disturb makes a random write, or cuts, compacts or rewinds the server.
func disturb(t *testing.T, s *apiserver.Server, r *rand.Rand) {
	name := fmt.Sprint("p", r.IntN(12))
	switch r.IntN(24) {
	case 0:
		s.Cut("pods")
	case 1:
		s.Compact(r.IntN(3))
	case 2, 3, 4, 5, 6:
		_ = s.Delete(pod(name)) // it may not exist
	default:
		if _, err := s.Create(pod(name, "n", "0")); err != nil {
			if _, err := s.Update(pod(name, "n", fmt.Sprint(r.Uint64()))); err != nil {
				t.Error(err)
			}
		}
	}
}

// pause advances the bubble's clock.
func pause(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func compare(t *testing.T, s *apiserver.Server, inf *informer.Informer[*corev1.Pod]) {
	t.Helper()
	list := must(clientset(t, s).CoreV1().Pods("").List(t.Context(), listAll))
	if inf.Len() != len(list.Items) {
		t.Errorf("the informer has %d pods, the server %d; %v", inf.Len(), len(list.Items), inf.Status())
	}
	for _, want := range list.Items {
		got, ok := inf.Get(object.Key{Namespace: want.Namespace, Name: want.Name})
		if !ok || got.ResourceVersion != want.ResourceVersion || got.UID != want.UID {
			t.Errorf("the informer has %v, the server %s at %s", got, want.Name, want.ResourceVersion)
		}
	}
	if len(list.Items) == 0 {
		t.Error("no pods to compare")
	}
}
