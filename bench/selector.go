package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/store"
)

// rareLabel measures a label selector that matches one object in a thousand: client-go lists
// everything and filters, Tarn has a label index.
func rareLabel(l *lab) []Row {
	c, t := l.selects(pods.TrackLabel + "=" + pods.Canary)
	return []Row{newRow("7 label selector matching 0.1 %", c, t, faster(50))}
}

// twoRequirements measures selectors with two requirements: one rare, and both common.
func twoRequirements(l *lab) []Row {
	narrow := fmt.Sprintf("%s=backend,%s=%s", pods.TierLabel, pods.TrackLabel, pods.Canary)
	wide := pods.TierLabel + "=backend,app.kubernetes.io/part-of in (payments,search)"
	var rows []Row
	for _, s := range []string{narrow, wide} {
		c, t := l.selects(s)
		rows = append(rows, newRow("+ label selector "+s, c, t))
	}
	return rows
}

func (l *lab) selects(text string) (clientGo, tarn *Figure) {
	selector, err := labels.Parse(text)
	check(err)
	byLabel := store.NewLabelIndex(meta.Labels)
	labelled := newStore(byLabel)
	check(labelled.Replace("1", l.pods...))
	want := 0
	for _, p := range l.pods {
		if selector.Matches(labels.Set(p.Labels)) {
			want++
		}
	}
	clientGo, tarn = duel{
		least: true,
		clientGo: func(n int) {
			for range n {
				found := 0
				for _, obj := range l.indexer.List() {
					if p, ok := obj.(pod); ok && selector.Matches(labels.Set(p.Labels)) {
						found++
					}
				}
				if found != want {
					fail("client-go selected %d; want %d", found, want)
				}
			}
		},
		tarn: func(n int) {
			for range n {
				found := 0
				labelled.View(func(snap store.Snapshot[pod]) {
					for p := range byLabel.Select(snap, selector) {
						if p != nil {
							found++
						}
					}
				})
				if found != want {
					fail("Tarn selected %d; want %d", found, want)
				}
			}
		},
	}.run(l)
	tarn.Note = fmt.Sprintf("%s matches", number(float64(want)))
	return clientGo, tarn
}
