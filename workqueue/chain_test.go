package workqueue

import (
	"fmt"
	"slices"
	"testing"
)

// Links in a chain are too narrow for the ids of very large queues. Beyond that the queue uses
// waiters, in the same order.
func TestMoreEntriesThanAChainCanHold(t *testing.T) {
	q := New(Options[string]{})
	q.entries.next = chainEnd - 2
	q.entries.pages = make([]*[pageSize]entry[string], chainEnd>>pageBits)
	q.entries.pages[len(q.entries.pages)-1] = new([pageSize]entry[string])
	var want, got []string
	for i := range 5 {
		want = append(want, fmt.Sprint("item-", i))
		q.Add(want[i])
	}
	if q.line.plain {
		t.Fatalf("the line is still plain; the newest entry is %d of %d", q.entries.next-1, uint32(chainEnd))
	}
	for range want {
		item, _ := q.Get()
		got = append(got, item)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
