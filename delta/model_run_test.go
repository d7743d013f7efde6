package delta_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// modes are the ways to consume.
var modes = []struct {
	name       string
	pop, batch bool
}{{"Pop", true, false}, {"PopBatch", false, true}, {"mixed", true, true}}

type rapidChooser struct{ *rapid.T }

func (c rapidChooser) choose(what string, n int) int {
	return rapid.IntRange(0, n-1).Draw(c.T, what)
}

// Short histories of few keys, which rapid shrinks when one fails.
func TestModel(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := newDriver(rapidChooser{t}, fewKeys)
				actions := map[string]func(*rapid.T){
					"produce": func(*rapid.T) { d.produce() },
					"putBack": func(*rapid.T) { d.putBack() },
				}
				if mode.pop {
					actions["pop"] = func(*rapid.T) { d.pop() }
				}
				if mode.batch {
					actions["popBatch"] = func(*rapid.T) { d.popBatch() }
				}
				t.Repeat(actions)
				d.drain(mode.batch)
			})
		})
	}
}

type randChooser struct {
	testing.TB
	*rand.Rand
}

func (c randChooser) choose(_ string, n int) int { return c.IntN(n) }

// Long histories of many keys, so that the log slides, is compacted and grows.
func TestModelLong(t *testing.T) {
	var keys []object.Key
	for i := range 60 {
		keys = append(keys, object.Key{Namespace: string(rune('a' + i%2)), Name: fmt.Sprint("k", i)})
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(0, 0))
			d := newDriver(randChooser{t, r}, keys)
			for range soak.Rounds(12) {
				// The queue grows for a while, then stays about the same.
				for range r.IntN(200) {
					d.produce()
				}
				for range r.IntN(100) {
					switch {
					case mode.pop && (!mode.batch || r.IntN(30) > 0):
						d.pop()
					case mode.batch && r.IntN(20) == 0:
						d.popBatch()
					default:
						d.produce()
					}
				}
			}
			d.drain(mode.batch)
		})
	}
}

// byteChooser takes decisions from a fuzzer's bytes, and 0 after the last one.
type byteChooser struct {
	testing.TB
	bytes []byte
}

func (c *byteChooser) choose(_ string, n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

func FuzzFIFO(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var bytes []byte
		for range 40 {
			bytes = binary.LittleEndian.AppendUint64(bytes, r.Uint64())
		}
		f.Add(bytes)
	}
	f.Add([]byte{0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) > 1<<10 {
			return // the model is slow
		}
		c := &byteChooser{t, bytes}
		d := newDriver(c, fewKeys)
		mode := modes[c.choose("mode", len(modes))]
		for len(c.bytes) > 0 {
			switch c.choose("action", 4) {
			case 0, 1:
				d.produce()
			case 2:
				d.putBack()
			case 3:
				if mode.pop && (!mode.batch || c.choose("batch", 2) == 0) {
					d.pop()
				} else {
					d.popBatch()
				}
			}
		}
		d.drain(mode.batch)
	})
}
