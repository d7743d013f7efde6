package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

// A recording is served as it was, and plays what happened after that. [apiserver.Replay] is the same in a test.
func ExampleNewReplay() {
	dir, err := os.MkdirTemp("", "replay")
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
	configs := &journal.Recorded{Identity: journal.Identity{Resource: "v1/configmaps"}, Kind: "ConfigMap", Namespaced: true}
	entry := func(kind object.Kind, version object.Version, value string) []journal.Entry {
		return []journal.Entry{{Kind: kind, Key: object.RawKey("shop/web"), UID: "1", Version: version, Data: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web","uid":"1","resourceVersion":"%s"},"data":{"replicas":%q}}`, version, value)}}
	}
	if err := errors.Join(
		recording.Objects(configs, entry(object.Added, "70", "3")),
		recording.Complete(configs, at),
		recording.Changes(configs, at.Add(time.Minute), entry(object.Updated, "80", "0")),
		recording.Close(),
	); err != nil {
		panic(err)
	}

	var night *apiserver.Replayed
	night, err = apiserver.NewReplay(path, apiserver.ReplayOptions{Speed: math.Inf(1)})
	if err != nil {
		panic(err)
	}
	defer night.Close()
	begin, end := night.Span()
	fmt.Println("plays:", end.After(begin))
	show := func() {
		for res, obj := range night.Objects {
			if res.Kind == "ConfigMap" {
				fmt.Println(night.Now().UTC().Format(time.TimeOnly), obj.(interface{ GetResourceVersion() string }).GetResourceVersion())
			}
		}
	}
	show()
	if err := night.Play(context.Background()); err != nil {
		panic(err)
	}
	show()
	// Output:
	// plays: true
	// 02:13:00 70
	// 02:14:00 80
}
