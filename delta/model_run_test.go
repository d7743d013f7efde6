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

type rapidChooser struct{ *rapid.T }

func (c rapidChooser) choose(what string, n int) int {
	return rapid.IntRange(0, n-1).Draw(c.T, what)
}

// Short histories of few keys, which rapid shrinks when one fails.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(rapidChooser{t}, fewKeys)
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(*rapid.T) { d.produce() },
			"putBack": func(*rapid.T) { d.putBack() },
			"pop":     func(*rapid.T) { d.pop() },
		})
		d.drain()
	})
}

type randChooser struct {
	testing.TB
	*rand.Rand
}

func (c randChooser) choose(_ string, n int) int { return c.IntN(n) }

// Long histories of many keys, so that entries are reused.
func TestModelLong(t *testing.T) {
	var keys []object.Key
	for i := range 60 {
		keys = append(keys, object.Key{Namespace: string(rune('a' + i%2)), Name: fmt.Sprint("k", i)})
	}
	r := rand.New(rand.NewPCG(0, 0))
	d := newDriver(randChooser{t, r}, keys)
	for range soak.Rounds(36) {
		// The queue grows for a while, then stays about the same.
		for range r.IntN(200) {
			d.produce()
		}
		for range r.IntN(100) {
			d.pop()
		}
	}
	d.drain()
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
		for len(c.bytes) > 0 {
			switch c.choose("action", 4) {
			case 0, 1:
				d.produce()
			case 2:
				d.putBack()
			case 3:
				d.pop()
			}
		}
		d.drain()
	})
}
