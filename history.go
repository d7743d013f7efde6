package tarn

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// maxHistory is the largest number of versions that [KeepHistory] accepts.
const maxHistory = 100

// historyBytes is how much the versions of one mirror may take.
const historyBytes = 32 << 20

// Mask hides fields in the console, in addition to the data of Secrets: their values appear in no
// response. All mirrors of a resource hide what any of them masks. To keep values out of memory, use [Drop].
func Mask(paths ...object.FieldPath) Option {
	return optionFunc(func(d *declaration) error {
		for _, p := range paths {
			if len(p) == 0 {
				return fmt.Errorf("Mask: empty field path")
			}
		}
		d.masked = append(d.masked, paths...)
		return nil
	})
}

// KeepHistory keeps the last versions of each object that changes, up to n, for the console, which
// shows what changed from one to the next. Each change is encoded as JSON. All versions of a mirror
// take up to 32 MiB; the oldest are dropped first. Of several users' numbers the highest applies.
// Defaults to none.
func KeepHistory(n int) Option {
	return optionFunc(func(d *declaration) error {
		if n < 1 || n > maxHistory {
			return fmt.Errorf("KeepHistory(%d): want 1 to %d versions", n, maxHistory)
		}
		d.history = max(d.history, n)
		return nil
	})
}

// history keeps the last versions of the objects of a mirror.
type history struct {
	mu     sync.Mutex // guards all below
	most   int        // versions of a key
	byKey  map[Key][]*list.Element
	all    *list.List // of kept, oldest first
	bytes  int
	budget int
}

// kept is one version of an object.
type kept struct {
	key     Key
	at      time.Time
	version string
	kind    string
	data    []byte // JSON
}

// keptOverhead is about what a version takes besides its data.
const keptOverhead = 200

func newHistory(most int) *history {
	return &history{most: most, byKey: map[Key][]*list.Element{}, all: list.New(), budget: historyBytes}
}

// extend raises the number of versions.
func (h *history) extend(most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = max(h.most, most)
}

// versions returns how many versions of a key are kept.
func (h *history) versions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// follow records the changes of an informer for as long as that runs.
func follow[P Object](h *history, inf *informer.Informer[P]) error {
	_, err := inf.SubscribeBatch(func(_ context.Context, events []Event[P]) {
		for _, ev := range events {
			if ev.Initial {
				continue
			}
			var old, now Object
			switch ev.Kind {
			case object.Added:
				now = ev.New()
			case object.Deleted, object.Left:
				old = ev.Old()
			case object.Updated, object.Replaced:
				old, now = ev.Old(), ev.New()
			default:
				continue
			}
			h.record(ev.Key, ev.Kind, old, now)
		}
	}, SubOptions[P]{Name: "history"})
	return err
}

// record adds a change. The state before it is added too if it is not known. When that was received
// is not known either.
func (h *history) record(key Key, kind object.Kind, old, now Object) {
	h.mu.Lock()
	first := len(h.byKey[key]) == 0
	h.mu.Unlock()
	if first && old != nil {
		h.add(key, time.Time{}, "first seen", old)
	}
	at, name := time.Now(), strings.ToLower(kind.String())
	if now != nil {
		h.add(key, at, name, now)
	} else {
		h.put(&kept{key: key, at: at, kind: name})
	}
}

func (h *history) add(key Key, at time.Time, kind string, obj Object) {
	data, err := json.Marshal(obj)
	if err != nil {
		return // an object that cannot be encoded has no history
	}
	h.put(&kept{key: key, at: at, version: obj.GetResourceVersion(), kind: kind, data: data})
}

func (h *history) put(v *kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byKey[v.key] = append(h.byKey[v.key], h.all.PushBack(v))
	h.bytes += len(v.data) + keptOverhead
	if len(h.byKey[v.key]) > h.most {
		h.drop(h.byKey[v.key][0])
	}
	for h.bytes > h.budget {
		h.drop(h.all.Front())
	}
}

// drop removes the oldest version of a key.
func (h *history) drop(e *list.Element) {
	v := h.all.Remove(e).(*kept)
	h.bytes -= len(v.data) + keptOverhead
	if rest := h.byKey[v.key][1:]; len(rest) > 0 {
		h.byKey[v.key] = slices.Clone(rest)
	} else {
		delete(h.byKey, v.key)
	}
}

// of returns the versions of a key, oldest first.
func (h *history) of(key Key) (all []console.Version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byKey[key] {
		v := e.Value.(*kept)
		all = append(all, console.Version{At: v.at, Version: v.version, Kind: v.kind, JSON: v.data})
	}
	return all
}
