package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(name string) object.Key { return object.Key{Namespace: "one", Name: name} }

func tier(t string) map[string]string { return map[string]string{"tier": t} }

// relabel makes an edit that moves an object to a tier.
func relabel(to string) func(*sim.Thing, int) {
	return func(t *sim.Thing, _ int) { t.Labels = tier(to) }
}

func touch(t *sim.Thing, unique int) { t.Status = unique }

// listed reads one page and returns the names on it.
func listed(t *testing.T, s sim.Source, opts object.ListOptions) (names []string, page object.Page, err error) {
	t.Helper()
	page, err = s.List(t.Context(), opts, nil, func(item object.Item[*sim.Thing]) error {
		names = append(names, item.Key.Name)
		return nil
	})
	return names, page, err
}

// brief describes an event in a few words.
func brief(ev object.Event[*sim.Thing]) string {
	switch {
	case ev.Err != nil:
		return fmt.Sprintf("ERROR %v", ev.Err)
	case ev.InitialEnd:
		return "END " + string(ev.Item.Version)
	case ev.Bookmark:
		return "BOOKMARK " + string(ev.Item.Version)
	}
	return fmt.Sprintf("%v %s %s", ev.Kind, ev.Item.Key.Name, ev.Item.Version)
}

// watched opens a watch and reads until it has n events or an error.
func watched(t *testing.T, s sim.Source, opts object.WatchOptions, n int) (events []string, err error) {
	t.Helper()
	w, err := s.Watch(t.Context(), opts, nil)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for len(events) < n {
		some, err := w.Next()
		if err != nil {
			return events, err
		}
		for _, ev := range some {
			events = append(events, brief(ev))
		}
	}
	return events, nil
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

// pass lets virtual time go by: a test in a bubble calls it.
func pass(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	<-ctx.Done()
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) }
