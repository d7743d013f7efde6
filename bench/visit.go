package main

import (
	"fmt"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/store"
)

// visitAll measures a loop over all objects that counts them.
func visitAll(l *lab) []Row {
	c, t := duel{
		least: true,
		clientGo: func(n int) {
			for range n {
				found := 0
				for _, obj := range l.indexer.List() {
					if p, ok := obj.(pod); ok && p != nil {
						found++
					}
				}
				if found != l.objects {
					fail("List gave %d of %d", found, l.objects)
				}
			}
		},
		tarn: func(n int) {
			for range n {
				found := 0
				l.store.View(func(snap store.Snapshot[pod]) {
					for p := range snap.All() {
						if p != nil {
							found++
						}
					}
				})
				if found != l.objects {
					fail("All gave %d of %d", found, l.objects)
				}
			}
		},
	}.run(l)
	return []Row{newRow(fmt.Sprintf("5 visit all %s objects", number(float64(l.objects))), c, t, faster(2.5), noAllocs())}
}

// visitAndRead is visitAll with a loop that also reads a field of every object, which costs both
// sides the same memory access.
func visitAndRead(l *lab) []Row {
	c, t := duel{
		least: true,
		clientGo: func(n int) {
			for range n {
				sum := 0
				for _, obj := range l.indexer.List() {
					sum += len(obj.(pod).Spec.NodeName)
				}
				keep(sum)
			}
		},
		tarn: func(n int) {
			for range n {
				sum := 0
				l.store.View(func(snap store.Snapshot[pod]) {
					for p := range snap.All() {
						sum += len(p.Spec.NodeName)
					}
				})
				keep(sum)
			}
		},
	}.run(l)
	return []Row{newRow("+ visit all objects and read a field of each", c, t)}
}

// indexLookup measures a loop over the objects of one node.
func indexLookup(l *lab) []Row {
	nodes := distinct(l, func(p pod) string { return p.Spec.NodeName })
	each := l.objects / len(nodes)
	c, t := l.lookups(nodes, "node", func(node string) (found int) {
		l.store.View(func(snap store.Snapshot[pod]) {
			for p := range byNode.Get(snap, node) {
				if p != nil {
					found++
				}
			}
		})
		return found
	})
	return []Row{newRow(fmt.Sprintf("6 index lookup with %d matches", each), c, t, faster(6), noAllocs())}
}

// namespaceRange measures a loop over the objects of one namespace: client-go needs an index for
// it, Tarn does not.
func namespaceRange(l *lab) []Row {
	namespaces := distinct(l, func(p pod) string { return p.Namespace })
	c, t := l.lookups(namespaces, cache.NamespaceIndex, func(namespace string) (found int) {
		l.store.View(func(snap store.Snapshot[pod]) {
			for p := range snap.Namespace(namespace) {
				if p != nil {
					found++
				}
			}
		})
		return found
	})
	return []Row{newRow(fmt.Sprintf("+ objects of a namespace, %s on average", number(float64(l.objects/len(namespaces)))), c, t)}
}

// lookups measures lookups in client-go's index of the given name beside a Tarn lookup that
// returns the number of objects found.
func (l *lab) lookups(values []string, index string, tarn func(value string) int) (*Figure, *Figure) {
	want := map[string]int{}
	for _, p := range l.pods {
		for _, value := range indexed(index, p) {
			want[value]++
		}
	}
	for _, value := range values {
		got := tarn(value)
		if got != want[value] {
			fail("Tarn found %d objects for %q; want %d", got, value, want[value])
		}
	}
	atClientGo, atTarn := 0, 0
	return duel{
		least: true,
		clientGo: func(n int) {
			for range n {
				objs, err := l.indexer.ByIndex(index, values[atClientGo])
				check(err)
				found := 0
				for _, obj := range objs {
					if p, ok := obj.(pod); ok && p != nil {
						found++
					}
				}
				keep(found)
				if atClientGo++; atClientGo == len(values) {
					atClientGo = 0
				}
			}
		},
		tarn: func(n int) {
			for range n {
				keep(tarn(values[atTarn]))
				if atTarn++; atTarn == len(values) {
					atTarn = 0
				}
			}
		},
	}.run(l)
}

func indexed(index string, p pod) []string {
	values, err := indexers()[index](p)
	check(err)
	return values
}

// distinct returns the distinct values of the objects in random order, as separate strings.
func distinct(l *lab, of func(pod) string) []string {
	var values []string
	seen := map[string]bool{}
	for _, i := range l.order {
		if v := of(l.pods[i]); !seen[v] {
			seen[v] = true
			values = append(values, strings.Clone(v))
		}
	}
	return values
}
