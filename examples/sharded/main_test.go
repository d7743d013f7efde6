package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each ConfigMap is reconciled by one replica, and by another one after its own has stopped.
func TestTheReplicasShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		var out strings.Builder
		if err := demo(ctx, &out); err != nil {
			t.Fatal(err)
		}
		before, after, stopped := strings.Cut(out.String(), "blue stops")
		if !stopped {
			t.Fatal("blue has not stopped")
		}
		owner := map[string]string{} // of a namespace
		for line := range strings.Lines(before) {
			who, key, ok := strings.Cut(strings.TrimSpace(line), " reconciles ")
			if !ok {
				continue
			}
			namespace, _, _ := strings.Cut(key, "/")
			if old := owner[namespace]; old != "" && old != who {
				t.Errorf("%s is reconciled by %s and by %s", namespace, old, who)
			}
			owner[namespace] = who
		}
		shares := map[string]int{}
		for _, who := range owner {
			shares[who]++
		}
		if len(owner) != 20 || len(shares) != 3 {
			t.Errorf("the shares of 20 namespaces are %v", shares)
		}
		for namespace, who := range owner {
			if who == "blue" && !strings.Contains(after, " reconciles "+namespace+"/") {
				t.Errorf("no replica has taken over %s", namespace)
			}
		}
	})
}
