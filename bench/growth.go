package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// growthSizes are the numbers of pods that growth measures.
var growthSizes = []int{1_000, 10_000, 100_000, 1_000_000}

// most is the largest number of pods for client-go's informer, which needs several times the memory.
const most = 100_000

// curve is a measure at all sizes. The values are of client-go, Tarn and Tarn's compact form; 0 if
// there is none.
type curve struct {
	title  string
	unit   Unit
	values [3][]float64
}

// growthSides are the names of the values of a curve, with the colours of their lines.
var growthSides = [3]struct{ name, colour string }{{"client-go", "#888"}, {"Tarn", "#0a6ebd"}, {"Tarn, compact", "#2a9d5c"}}

// growth measures syncs, memory, reads, writes, relists and diffs at several sizes, prints them
// and writes them to a file as plots.
func growth(opts options, sizes []int, stdout, stderr io.Writer) (err error) {
	defer recovered(&err)
	curves := []*curve{
		{title: "first sync, CPU", unit: Nanoseconds}, {title: "live heap after the sync", unit: Bytes},
		{title: "relist of unchanged pods, CPU", unit: Nanoseconds}, {title: "Get", unit: Nanoseconds},
		{title: "index lookup, 100 matches", unit: Nanoseconds}, {title: "update, 3 indexes", unit: Nanoseconds},
		{title: "diff with 500 changes", unit: Nanoseconds},
	}
	sync, heap, relist, get, index, update, diff := curves[0], curves[1], curves[2], curves[3], curves[4], curves[5], curves[6]
	for _, size := range sizes {
		opts.objects = size
		l := newLab(opts, stderr)
		l.nodes, l.slim = size/100, true
		l.progress("growth: %d pods", size)
		l.fill()
		get.add(quietGet(l)[0])
		index.add(indexLookup(l)[0])
		update.add(singleUpdates(l)[0])
		diff.add(diffOf(l, 500))
		l.empty()
		l.growInformers(sync, heap, relist)
		l.close()
	}
	for _, c := range curves {
		fmt.Fprintf(stdout, "%s\n", c.row(sizes))
	}
	return os.WriteFile(opts.growth, []byte(plots(curves, sizes)), 0o644)
}

func (c *curve) add(r Row) {
	c.append(0, r.ClientGo)
	c.append(1, r.Tarn)
}

func (c *curve) append(side int, f *Figure) {
	v := 0.0
	if f != nil {
		v = f.Value
	}
	c.values[side] = append(c.values[side], v)
}

// growInformers measures syncs and relists.
func (l *lab) growInformers(sync, heap, relist *curve) {
	j := job{Replay: l.prepare(podStream())}
	for side, name := range []string{sideClientGo, sideTarn, sideTarn} {
		j.Compact = side == 2
		if side == 0 && l.objects > most {
			sync.append(side, nil)
			heap.append(side, nil)
			relist.append(side, nil)
			continue
		}
		j.Measure = "informer-sync"
		s := l.turns(1, j, name)[0]
		sync.append(side, cpuEach(s))
		heap.append(side, liveEach(s))
		j.Measure = "informer-relist"
		relist.append(side, cpuEach(l.turns(1, j, name)[0]))
	}
}

// row returns the curve as a line of a table for each side.
func (c *curve) row(sizes []int) string {
	var b strings.Builder
	for side, values := range c.values {
		if !slices.ContainsFunc(values, func(v float64) bool { return v > 0 }) {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", c.title, growthSides[side].name)
		for i := range sizes {
			if values[i] == 0 {
				b.WriteString(" – |")
			} else {
				fmt.Fprintf(&b, " %s |", quantity(values[i], c.unit))
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plots draws the curves as an SVG file: logarithmic axes, one panel each. The dashed line is
// linear growth.
func plots(curves []*curve, sizes []int) string {
	const width, height, gap, columns = 300.0, 220.0, 20.0, 2
	rows := (len(curves) + 1 + columns - 1) / columns
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11">`+"\n", columns*(width+gap), float64(rows)*(height+gap))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for i, c := range curves {
		x, y := float64(i%columns)*(width+gap), float64(i/columns)*(height+gap)
		fmt.Fprintf(&b, `<g transform="translate(%g %g)">`+"\n", x, y)
		c.plot(&b, sizes, width, height)
		b.WriteString("</g>\n")
	}
	x, y := float64(len(curves)%columns)*(width+gap)+60, float64(len(curves)/columns)*(height+gap)+60
	for i, s := range growthSides {
		fmt.Fprintf(&b, `<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="%s" stroke-width="2"/><text x="%g" y="%g">%s</text>`+"\n",
			x, y+float64(i)*20, x+30, y+float64(i)*20, s.colour, x+40, y+float64(i)*20+4, s.name)
	}
	fmt.Fprintf(&b, `<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="#ccc" stroke-dasharray="4 3"/><text x="%g" y="%g">linear growth</text>`+"\n", x, y+60, x+30, y+60, x+40, y+64)
	b.WriteString("</svg>\n")
	return b.String()
}

// plot draws one panel.
func (c *curve) plot(b *strings.Builder, sizes []int, width, height float64) {
	const left, top, bottom = 55.0, 25.0, 25.0
	low, high := math.Inf(1), 0.0
	for _, values := range c.values {
		for _, v := range values {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if from == to {
		to++
	}
	first, last := math.Log10(float64(sizes[0])), math.Log10(float64(sizes[len(sizes)-1]))
	x := func(size int) float64 {
		return left + (math.Log10(float64(size))-first)/max(last-first, 1)*(width-left-10)
	}
	y := func(v float64) float64 {
		return height - bottom - (math.Log10(v)-from)/(to-from)*(height-top-bottom)
	}
	fmt.Fprintf(b, `<text x="%g" y="14" font-weight="bold">%s</text>`+"\n", left, c.title)
	for e := from; e <= to; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(b, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#eee"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y(v), width-10, y(v), left-5, y(v)+4, quantity(v, c.unit))
	}
	for _, size := range sizes {
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x(size), height-8, number(float64(size)))
	}
	var start float64
	for side, values := range c.values {
		var points []string
		for i, v := range values {
			if v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(sizes[i]), y(v)))
			}
		}
		if side == 1 {
			start = values[0]
		}
		if len(points) > 0 {
			fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), growthSides[side].colour)
		}
	}
	// Linear growth from the first point of Tarn, as far as the panel reaches.
	end := min(float64(sizes[len(sizes)-1])/float64(sizes[0]), math.Pow(10, to)/start)
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ccc" stroke-dasharray="4 3"/>`+"\n",
		x(sizes[0]), y(start), x(int(float64(sizes[0])*end)), y(start*end))
}
