package store

import (
	"fmt"
	"testing"

	"github.com/tarnproject/tarn/object"
)

// These are for profiles while one works on the store; `make bench` compares with client-go.

const benchObjects = 100_000

func benchThing(i, version int) *thing {
	return &thing{
		key:     object.Key{Namespace: fmt.Sprintf("ns-%03d", i/1000), Name: fmt.Sprintf("pod-%06d-abcde", i)},
		uid:     object.UID(fmt.Sprintf("%08x-7d4f-4b1c-9c3a-%012x", i, i*7919)),
		version: object.Version(fmt.Sprint(version)),
		color:   fmt.Sprint("color-", i%1000),
	}
}

var benchColor = NewIndex("color", func(t *thing) string { return t.color })

func benchStore(b *testing.B) (*Store[*thing], []*thing) {
	s := Must(New(things, Options[*thing]{Indexes: []AnyIndex[*thing]{benchColor}}))
	all := make([]*thing, benchObjects)
	for i := range all {
		all[i] = benchThing(i, i+1)
	}
	if err := s.Replace("1", all...); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return s, all
}

// scattered visits the objects in an order that no prefetcher guesses.
func scattered(all []*thing, i int) *thing { return all[i*7919%len(all)] }

func BenchmarkGet(b *testing.B) {
	s, all := benchStore(b)
	for i := 0; b.Loop(); i++ {
		if _, ok := s.Get(scattered(all, i).key); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkAll(b *testing.B) {
	s, _ := benchStore(b)
	for b.Loop() {
		n := 0
		s.View(func(snap Snapshot[*thing]) {
			for range snap.All() {
				n++
			}
		})
		if n != benchObjects {
			b.Fatal(n)
		}
	}
}

func BenchmarkIndexGet(b *testing.B) {
	s, all := benchStore(b)
	snap := s.Snapshot()
	defer snap.Release()
	for i := 0; b.Loop(); i++ {
		n := 0
		for range benchColor.Get(snap, scattered(all, i).color) {
			n++
		}
		if n != 100 {
			b.Fatal(n)
		}
	}
}

func BenchmarkView(b *testing.B) {
	s, _ := benchStore(b)
	for b.Loop() {
		s.View(func(Snapshot[*thing]) {})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s, _ := benchStore(b)
	for b.Loop() {
		s.Snapshot().Release()
	}
}

func BenchmarkSet(b *testing.B) {
	s, all := benchStore(b)
	for i := 0; b.Loop(); i++ {
		if err := s.Set(scattered(all, i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDeleteAndSet(b *testing.B) {
	s, all := benchStore(b)
	for i := 0; b.Loop(); i++ {
		obj := scattered(all, i)
		s.Delete(obj.key)
		if err := s.Set(obj); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApplyUnchangedList(b *testing.B) {
	s, all := benchStore(b)
	copies := make([]*thing, len(all))
	for i := range copies { // not in the order of the list, so that no prefetcher guesses their addresses
		at := i * 7919 % len(all)
		copies[at] = benchThing(at, at+1)
	}
	list, err := object.ListOf(things, "2", copies...)
	if err != nil {
		b.Fatal(err)
	}
	batch := &object.Batch[*thing]{Changes: []object.Change[*thing]{{Kind: object.Replaced, List: &list}}}
	for b.Loop() {
		if changes, err := s.Apply(batch, nil); err != nil || len(changes) > 0 {
			b.Fatal(len(changes), err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	s, all := benchStore(b)
	before := s.Snapshot()
	defer before.Release()
	for i := range 1000 {
		if err := s.Set(benchThing(i*7919%len(all), benchObjects+i)); err != nil {
			b.Fatal(err)
		}
	}
	after := s.Snapshot()
	defer after.Release()
	for b.Loop() {
		n := 0
		for range Diff(before, after) {
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}
