package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

// A recording is one file with what several mirrors received and what controllers did about it.
func ExampleRecording() {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "incident.tarn")
	recording, err := journal.NewRecording(path)
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 1, 2, 2, 13, 0, 0, time.UTC)
	pods := &journal.Recorded{Identity: journal.Identity{Resource: "v1/pods"}, Kind: "Pod", Namespaced: true}
	web := object.Key{Namespace: "shop", Name: "web"}
	err = errors.Join(
		recording.Objects(pods, []journal.Entry{{Kind: object.Added, Key: web, UID: "1", Version: "7", Data: []byte("{}")}}),
		recording.Complete(pods, at),
		recording.Changes(pods, at.Add(time.Second), []journal.Entry{{Kind: object.Deleted, Key: web, UID: "1", Version: "8"}}),
		recording.Did(journal.Activity{At: at.Add(2 * time.Second), Controller: "pods", Verb: "reconcile", Key: web, Outcome: "done"}),
	)
	fmt.Println("written:", recording.Size() > 0, err)
	if err := recording.Close(); err != nil {
		panic(err)
	}

	show := func(ev *journal.Event) {
		switch {
		case ev.Activity != nil:
			fmt.Println(ev.Activity.Controller, ev.Activity.Verb, ev.Activity.Key, ev.Activity.Outcome)
		case ev.Kind != object.Synced:
			fmt.Println(ev.Mirror.Kind, ev.Kind, ev.Key, ev.Version)
		}
	}
	for ev, err := range journal.Events(path) {
		if err != nil {
			panic(err)
		}
		show(ev)
	}
	// Output:
	// written: true <nil>
	// Pod Added shop/web 7
	// Pod Deleted shop/web 8
	// pods reconcile shop/web done
}

// The error of Load says why a mirror cannot continue, and that of a recorder's status why nothing is written.
func ExampleLog_Load() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	j, err := journal.New(dir, journal.Options{Secrets: true})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	explain := func(err error) string {
		var format *journal.FormatError
		var mismatch *journal.MismatchError
		switch {
		case errors.Is(err, journal.ErrNone):
			return "this is the first start"
		case errors.Is(err, journal.ErrDamaged):
			return "all files are damaged"
		case errors.Is(err, journal.ErrLocked):
			return "another process writes here"
		case errors.Is(err, journal.ErrFull):
			return "the limit is too low"
		case errors.As(err, &mismatch):
			return "the mirror has another " + mismatch.What
		case errors.As(err, &format):
			return fmt.Sprintf("format %s, this program has %d", format.Has, journal.Format)
		}
		return fmt.Sprint(err)
	}
	var state journal.State
	state, err = j.Log("pods").Load(journal.Identity{Resource: "v1/pods"}, func() {}, func(*journal.Entry) {})
	fmt.Println(explain(err))
	var mark journal.Mark
	mark, ok := state.Mark("")
	fmt.Println(mark.Version, ok, j.Secrets())
	// Output:
	// this is the first start
	//  false true
}
