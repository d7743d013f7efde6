package main

import (
	"strings"
	"testing"
)

func ns(v, allocs float64) *Figure {
	return &Figure{Value: v, Unit: Nanoseconds, Counted: true, Allocs: allocs, Bytes: 16 * allocs}
}

func TestARowIsJudgedByAllItsGoals(t *testing.T) {
	for _, c := range []struct {
		name           string
		clientGo, tarn *Figure
		goals          []goal
		want           bool
	}{
		{"faster", ns(300, 0), ns(100, 0), []goal{faster(3)}, true},
		{"not fast enough", ns(299, 0), ns(100, 0), []goal{faster(3)}, false},
		{"fast but allocates", ns(300, 0), ns(100, 1), []goal{faster(3), noAllocs()}, false},
		{"stray allocations are none", ns(300, 0), ns(100, 0.01), []goal{faster(3), noAllocs()}, true},
		{"not slower", ns(100, 0), ns(100, 0), []goal{notSlower()}, true},
		{"slower", ns(100, 0), ns(101, 0), []goal{notSlower()}, false},
		{"under", nil, ns(249, 0), []goal{under(250, Nanoseconds)}, true},
		{"not under", nil, ns(250, 0), []goal{under(250, Nanoseconds)}, false},
		{"at most two", ns(9, 7), ns(1, 2), []goal{allocsAtMost(2)}, true},
		{"three", ns(9, 7), ns(1, 3), []goal{allocsAtMost(2)}, false},
		{"half of seven", ns(9, 7), ns(1, 3), []goal{halfTheAllocs()}, true},
		{"more than half", ns(9, 7), ns(1, 4), []goal{halfTheAllocs()}, false},
		{"small enough", ns(400, 0), ns(280, 0), []goal{shareOfMemory(0.7)}, true},
		{"too large", ns(400, 0), ns(281, 0), []goal{shareOfMemory(0.7)}, false},
		{"fewer allocations", ns(9, 2), ns(1, 1.9), []goal{fewerAllocs()}, true},
		{"as many allocations", ns(9, 2), ns(1, 2), []goal{fewerAllocs()}, false},
		{"one per hundred", ns(9, 9), ns(1, 10), []goal{fewAllocs(1000)}, false},
		{"fewer", ns(9, 9), ns(1, 9), []goal{fewAllocs(1000)}, true},
	} {
		if r := newRow(c.name, c.clientGo, c.tarn, c.goals...); *r.Met != c.want {
			t.Errorf("%s: met is %v; want %v", c.name, *r.Met, c.want)
		}
	}
	if r := newRow("no goal", ns(1, 0), ns(1, 0)); r.Met != nil {
		t.Error("a row without goals was judged")
	}
}

func TestFiguresAreShortAndHaveUnits(t *testing.T) {
	for _, c := range []struct {
		figure *Figure
		want   string
	}{
		{nil, "–"},
		{ns(116.4, 0), "116 ns, 0 allocs"},
		{ns(1834, 7), "1.83 µs, 7 allocs, 112 B"},
		{ns(290.3e6, 432_000), "290 ms, 432,000 allocs, 6.91 MB"},
		{&Figure{Value: 2.5, Unit: Times}, "2.50×"},
		{&Figure{Value: 400, Unit: Bytes, Note: "a note"}, "400 B (a note)"},
		{&Figure{Value: 0.25, Unit: Nanoseconds}, "0.25 ns"},
		{&Figure{Value: 34_046, Unit: Times}, "34,046×"},
	} {
		if got := c.figure.String(); got != c.want {
			t.Errorf("got %q; want %q", got, c.want)
		}
	}
}

func TestColumnsAreAligned(t *testing.T) {
	var b strings.Builder
	rows := []Row{
		newRow("2 Get", ns(116, 0), ns(47, 0), faster(1.5)),
		newRow("+ something with a longer name", nil, ns(1834, 7)),
		beside("another", newRow("+ beside another", ns(2, 0), ns(1, 0))),
	}
	if err := writeTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	const want = `
| measure                        | client-go               | tarn                     | ratio | target       | met? |
| ------------------------------ | ----------------------- | ------------------------ | ----- | ------------ | ---- |
| 2 Get                          | 116 ns, 0 allocs        | 47 ns, 0 allocs          | 2.47× | 1.50× faster | yes  |
| + something with a longer name | –                       | 1.83 µs, 7 allocs, 112 B |       |              |      |
| + beside another               | another: 2 ns, 0 allocs | 1 ns, 0 allocs           | 2×    |              |      |
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%swant:%s", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v is %v; want %v", c.of, got, c.want)
		}
	}
}
